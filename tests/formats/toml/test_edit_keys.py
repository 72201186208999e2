"""Surgical edits: a key is renamed, removed, moved, or gets a header."""

import tomllib

import pytest

from fp8tune.formats.edits import CannotEdit
from tests.each import each
from tests.formats.toml.editing import edited, path_of
from tests.formats.toml.values import walk


@each(
    ("text", "path", "name", "after"),
    [
        ("a = 1 # a\n", "a", "b", "b = 1 # a\n"),
        ("'a' = 1\r\n", "a", "b c", '"b c" = 1\r\n'),
        ("[t] # c\na = 1\n", "t", "u", "[u] # c\na = 1\n"),
        ("t.a = 1\nt.b = 2\n", "t", "u", "u.a = 1\nu.b = 2\n"),
        ("[[t]]\na = 1\n[[t]]\na = 2\n", "t", "u", "[[u]]\na = 1\n[[u]]\na = 2\n"),
        ("[[t]]\na = 1\n[[t]]\na = 2\n", "t.1.a", "b", None),
        ("t = { s.a = 1, s.b = 2 }\n", "t.s", "r", "t = { r.a = 1, r.b = 2 }\n"),
    ],
)
def test_rename_a_key(text, path, name, after):
    said, values = edited(text, "rename_key", path_of(path), name)
    assert (*path_of(path)[:-1], name) in dict(walk(values))
    assert path_of(path) not in dict(walk(values))
    if after is not None:
        assert said == after


@each(
    ("text", "path", "after"),
    [
        ("a = 1\nb = 2\n", "a", "b = 2\n"),
        ("a = 1\r\nb = 2\r\n", "a", "b = 2\r\n"),
        ("  a = 1  # why\nb = 2\n", "a", "# why\nb = 2\n"),
        ("# above\na = 1\n", "a", "# above\n"),
        ('a = """\n\n"""\nb = 2\n', "a", "b = 2\n"),
        ("t.a = 1\nt.b = 2\n", "t.a", "t.b = 2\n"),
        ("[[t]]\na = 1\n[[t]]\na = 2\n", "t.1.a", "[[t]]\na = 1\n[[t]]\n"),
        ("t = { a = 1, b = 2 }\n", "t.b", "t = { a = 1 }\n"),
        ("t = { a = 1 } # c\n", "t.a", "t = { } # c\n"),
        ("[s]\na = 1\n\n[t]  # c\n", "t", "[s]\na = 1\n\n# c\n"),
        ("[t.s]\n[u]\n", "t.s", "[u]\n"),
    ],
)
def test_remove_a_key(text, path, after):
    assert edited(text, "remove_key", path_of(path)) == (after, tomllib.loads(after))


@each(
    ("text", "path", "after"),
    [
        (
            "a = 1\n[t]\nb = [\n  [1],\n]\n[t.s]\n[[t.u]] # c\nx = 1\n[t.u.v.w]\n"
            "y = 1\n[[t.u]]\n# mine\n[tt]\n",
            "t",
            "a = 1\n[tt]\n",
        ),
        ("t.a = 1\nt.s.b = 2\nb = 1\n[t.u]\n[v]\n[t.w]\nc = 1", "t", "b = 1\n[v]\n"),
        ("[x]\nt.a = { b = 1 }\nb = 1\n[x.t.u]\n", "x.t", "[x]\nb = 1\n"),
    ],
)
def test_remove_a_table_with_all_that_is_in_it(text, path, after):
    made = edited(text, "remove_table", path_of(path))
    assert made == (after, tomllib.loads(after))


@each(
    ("text", "path", "to", "after"),
    [
        ("[t]\na = 1 # c\n[u]\nb = 2\n", "t.a", "u.a", "[t]\n[u]\nb = 2\na = 1 # c\n"),
        ("[t]\na=0x1F\n", "t.a", "u.a", "[t]\n\n[u]\na=0x1F\n"),
        ("t.a = 1\nu.b = 2\n", "t.a", "u.a", "u.b = 2\nu.a = 1\n"),
        ("a = 1\n[u]\n", "a", "u.a", "[u]\na = 1\n"),
        ("[t]\na = [\r\n 1,\r\n]\r\n[u]\r\n", "t.a", "u.c", None),
        (
            "[t]\n# b\nb = 1\n# a\n # too\na = 2\n[u]\n",
            "t.a",
            "u.a",
            "[t]\n# b\nb = 1\n[u]\n# a\n# too\na = 2\n",
        ),
        (
            "[t]\n# a\na = 1\n[u]\nb = 1\n",
            "t.a",
            "u.a",
            "[t]\n[u]\nb = 1\n# a\na = 1\n",
        ),
        ("u.b = 1\n[t]\n# a\na = 1\n", "t.a", "u.a", "u.b = 1\n# a\nu.a = 1\n[t]\n"),
    ],
)
def test_move_a_key(text, path, to, after):
    before = dict(walk(tomllib.loads(text)))
    said, values = edited(text, "move_key", path_of(path), path_of(to))
    assert dict(walk(values))[path_of(to)] == before[path_of(path)]
    assert path_of(path) not in dict(walk(values))
    if after is not None:
        assert said == after


@each(
    ("text", "path", "to", "after"),
    [
        (
            "# c\n[t] # d\na = 1\n[t.s]\n",
            "t",
            "u.v",
            "# c\n[u.v] # d\na = 1\n[u.v.s]\n",
        ),
        (" [t.s.r]\na = 1\n", "t.s.r", "u", " [u]\na = 1\n"),
    ],
)
def test_move_a_table(text, path, to, after):
    assert edited(text, "move_key", path_of(path), path_of(to))[0] == after


@pytest.mark.parametrize(
    ("text", "path", "after"),
    [
        ("a = 1\nb = 2\n", "a", "[s]\na = 1\nb = 2\n"),
        ("# c\n  a = 1\r\nb = 2\r\n", "a", "# c\n[s]\r\n  a = 1\r\nb = 2\r\n"),
        ("x.y = 1\na = 1\n[t]\n", "a", "x.y = 1\n[s]\na = 1\n[t]\n"),
        ("a = 1", "a", "[s]\na = 1"),
    ],
)
def test_add_a_header(text, path, after):
    assert edited(text, "add_header", path_of(path), "s") == (
        after,
        tomllib.loads(after),
    )


@each(
    ("edit", "text", "path", "arguments"),
    [
        ("rename_key", "a = 1\nb = 2\n", "a", ["b"]),
        ("rename_key", "[t]\na = 1\nb = 2\n", "t.a", ["b"]),
        ("rename_key", "[t]\n[u]\n", "t", ["u"]),
        ("rename_key", "t.a = 1\n[u]\n", "t", ["u"]),
        ("rename_key", "a = 1\n", "x", ["b"]),
        ("rename_key", "a = [1]\n", "a.0", ["b"]),
        ("remove_key", "a = 1\n", "b", []),
        ("remove_key", "[t]\na = 1\n", "t", []),
        ("remove_key", "[t.s]\n", "t", []),
        ("remove_key", "a = [1, 2]\n", "a.0", []),
        ("remove_key", "t = { s.a = 1, b = 2 }\n", "t.s.a", []),
        ("remove_key", "x = [\n { s.a = 1 },\n]\n", "x.0.s.a", []),
        ("move_key", "[t]\na = 1\n[u]\na = 2\n", "t.a", [("u", "a")]),
        ("move_key", "t = { a = 1 }\n", "t.a", [("u", "a")]),
        ("move_key", "t.a = 1\n", "t", [("u", "t")]),
        ("move_key", "[t]\na = 1\n[u]\n", "t", [("u",)]),
        ("move_key", "t = { s.a = 1 }\n", "t.s.a", [("u", "a")]),
        ("add_header", "a = 1\nx.y = 1\n", "a", ["s"]),
        ("add_header", "a = 1\nx = {}\n", "a", ["s"]),
        ("add_header", "a = 1\nx.y.z = 2\n[t]\n", "a", ["s"]),
        ("add_header", "b = 1", "a", ["s"]),
    ],
)
def test_what_cannot_be_done(edit, text, path, arguments):
    """A header, for one, must not swallow another section."""
    with pytest.raises(CannotEdit):
        edited(text, edit, path_of(path), *arguments)
