"""Surgical edits: a value is set or a key added, and nothing else changes."""

import tomllib

import pytest

from fp8tune.formats.edits import CannotEdit, Edit, apply, in_order
from fp8tune.formats.toml.document import parse
from tests.each import each
from tests.formats.toml.editing import edited, path_of
from tests.formats.toml.values import canonical, walk


@each(
    ("text", "path", "value", "after"),
    [
        ("a = 1 # one\n", "a", 2, "a = 2 # one\n"),
        ("a=1\r\nb=2\r\n", "a", "x", 'a="x"\r\nb=2\r\n'),
        ("[t]\na = 1\n", "t.a", True, "[t]\na = true\n"),
        ("[s]\nt.a = 1\n", "s.t.a", 2, "[s]\nt.a = 2\n"),
        ("t = { a = 1, b = 2 }\n", "t.b", 3, "t = { a = 1, b = 3 }\n"),
        ("t = [{ a = 1 }, { a = 2 }]\n", "t.0.a", 3, "t = [{ a = 3 }, { a = 2 }]\n"),
        ("a = [1, 2]\n", "a.1", 3, "a = [1, 3]\n"),
        ("a = [ # c\n 1,\n]\nb = 2\n", "a", [3], "a = [ # c\n 3,\n]\nb = 2\n"),
        ("a = [\n 1, # c\n 2, # d\n]\n", "a", [1, 3], "a = [\n 1, # c\n 3, # d\n]\n"),
        ("a = [\n 1 # c\n]\n", "a", [0, 1], "a = [\n 0, 1 # c\n]\n"),
        ("a = [\n 1,\n 2\n]\n", "a", [1], "a = [1]\n"),
        ("a = []\n", "a", ["x"], 'a = ["x"]\n'),
        ("a = [1, true]\n", "a", [1.0, 1], "a = [1.0, 1]\n"),
        ("a = [1] # c\n", "a", "x", 'a = "x" # c\n'),
        ("a = ['x']\n", "a", ["x", "z"], "a = ['x', 'z']\n"),
        ("a = 'x'\n", "a", "y", "a = 'y'\n"),
        ('a = "it\'s"\n', "a", "x", 'a = "x"\n'),
        ("a = '''\nx''' # c\n", "a", "y", "a = 'y' # c\n"),
        ("a = 1\n", "a", 'say "\\"', 'a = "say \\"\\\\\\""\n'),
        ("a = 1\n", "a", [0.5, 1e-5, [True]], "a = [0.5, 1e-05, [true]]\n"),
    ],
)
def test_set_a_value(text, path, value, after):
    expected = edited(text, "set_values", {path_of(path): value})
    assert expected == (after, tomllib.loads(after))
    assert canonical(dict(walk(expected[1]))[path_of(path)]) == canonical(value)


def test_an_integer_too_long_to_print_stays_as_it_is():
    """Python prints at most 4,300 digits of a decimal, and TOML has hexadecimals."""
    huge = "0x" + "f" * 5000
    document = parse(f"a = [{huge}, 1]\n".encode())
    edits = document.set_values({("a",): [int(huge, 16), 2]})
    assert apply(document.text, edits) == f"a = [{huge}, 2]\n"


@each("value", [[2, 1], [1], [], [2, 3, 4, 5, 1], "x", 5], ids=repr)
def test_a_value_with_comments_inside_is_not_replaced(value):
    """Where items go or move, nobody knows what becomes of their comments."""
    with pytest.raises(CannotEdit, match="a comment would be lost"):
        edited("a = [\n 1, # c\n 2,\n]\n", "set_values", {("a",): value})


def test_a_value_with_comments_inside_is_not_removed():
    with pytest.raises(CannotEdit, match="a comment would be lost"):
        edited("a = [\n 1, # c\n]\nb = 2\n", "remove_key", ("a",))


ADDED = [
    ("", "t.a", "[t]\na = 0\n"),
    ("b = 1\n", "a", "b = 1\na = 0\n"),
    ("[t]", "t.a", "[t]\na = 0"),
    ("[ t ] # c\r\n[u]\r\n", "t.a", "[ t ] # c\r\na = 0\r\n[u]\r\n"),
    ("[t]\nb = 1 # c\n\n[u]\n", "t.a", "[t]\nb = 1 # c\na = 0\n\n[u]\n"),
    ("[t]\n  b = 1\n", "t.a", "[t]\n  b = 1\n  a = 0\n"),
    ('[t]\nb = """\nx"""\n', "t.a", '[t]\nb = """\nx"""\na = 0\n'),
    ("t.b = 1\nc = 2\n", "t.a", "t.b = 1\nt.a = 0\nc = 2\n"),
    ("t . b = 1\n", "t.a", "t . b = 1\nt . a = 0\n"),
    ("t.s.b = 1\nc = 2\n", "t.a", "t.s.b = 1\nt.a = 0\nc = 2\n"),
    ("t = { b = 1 }\n", "t.a", "t = { b = 1, a = 0 }\n"),
    ("t = {}\n", "t.a", "t = { a = 0 }\n"),
    ("[[t]]\n[[t]]\nb = 1\n", "t.0.a", "[[t]]\na = 0\n[[t]]\nb = 1\n"),
    ("[[t]]\n[t.s]\n", "t.0.s.a", "[[t]]\n[t.s]\na = 0\n"),
    ("t = [{ b = 1 }]\n", "t.0.a", "t = [{ b = 1, a = 0 }]\n"),
    ("[t.s]\n[t]\n# c\n", "t.a", "[t.s]\n[t]\na = 0\n# c\n"),
    ("[t]\n[t.s]\nb = 1\n", "t.a", "[t]\na = 0\n[t.s]\nb = 1\n"),
    ("['t']\n", "t.a", "['t']\na = 0\n"),
    ("b = 1\r\n", "t.a", "b = 1\r\n\r\n[t]\r\na = 0\r\n"),
    ("# c\n [t]\nb = 1\n", "a", "# c\na = 0\n [t]\nb = 1\n"),
    ("x = 1\n", "t u.a", 'x = 1\n\n["t u"]\na = 0\n'),
]


@each(("text", "path", "after"), ADDED)
def test_add_a_key(text, path, after):
    said, values = edited(text, "set_values", {path_of(path): 0})
    assert dict(walk(values))[path_of(path)] == 0
    if after is not None:
        assert said == after


@each(
    ("text", "path"),
    [
        ("[[t]]\nb = 1\n", "t.a"),
        ("t = 5\n", "t.a"),
        ("[t.a]\n", "t.a"),
        ("x = [[ { b.c = 1 } ]]\n", "x.0.0.b.a"),
        ("", "t.0.a"),
        ("[t]\n", "t.\n"),
    ],
)
def test_a_key_that_cannot_be_added(text, path):
    with pytest.raises(CannotEdit):
        edited(text, "set_values", {path_of(path): 0})


def test_several_keys_of_one_table_are_added_at_once():
    values = {("t", "b"): 1, ("t", "a"): 2, ("u", "c"): 3, ("x",): 4}
    assert edited("x = 0\n", "set_values", values)[0] == (
        "x = 4\n\n[t]\nb = 1\na = 2\n\n[u]\nc = 3\n"
    )


def test_edits_that_touch_are_applied_and_those_that_overlap_are_not():
    edits = [Edit(2, 2, "-"), Edit(2, 4, "CD"), Edit(0, 2, "AB")]
    assert apply("abcdef", edits) == "AB-CDef"
    assert in_order(edits) == [Edit(0, 2, "AB"), Edit(2, 2, "-"), Edit(2, 4, "CD")]
    with pytest.raises(CannotEdit, match="overlap"):
        apply("abcdef", [Edit(0, 3, ""), Edit(2, 4, "")])
