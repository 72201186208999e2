"""Surgical edits: in every layout the values change as asked, and nothing else."""

import copy
import tomllib

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from fp8tune.toml.document import Document, comments, parse
from fp8tune.toml.edit import (
    Edit,
    add_header,
    apply,
    in_order,
    move_key,
    remove_key,
    rename_key,
    set_values,
)
from fp8tune.toml.literal import CannotEdit, literal
from tests.toml.test_spans import canonical, walk
from tests.toml.writer import documents, scalars

SLOWLY = settings(
    max_examples=100,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking takes minutes
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


def path_of(dotted):
    parts = dotted.split(".") if dotted else []
    return tuple(int(part) if part.isdigit() else part for part in parts)


def edited(text, edit, *arguments):
    """The text after an edit, and its values, which must be there."""
    document = parse(text.encode())
    made = edit(document, *arguments)
    after = apply(document.text, [made] if isinstance(made, Edit) else made)
    return after, tomllib.loads(after)


@pytest.mark.parametrize(
    ("text", "path", "value", "after"),
    [
        ("a = 1", "a", 2, "a = 2"),
        ("a = 1 # one\n", "a", 2, "a = 2 # one\n"),
        ("a=1\r\nb=2\r\n", "a", "x", 'a="x"\r\nb=2\r\n'),
        ("[t]\na = 1\n", "t.a", True, "[t]\na = true\n"),
        ("t.a = 1\n", "t.a", 2, "t.a = 2\n"),
        ("[s]\nt.a = 1\n", "s.t.a", 2, "[s]\nt.a = 2\n"),
        ("t = { a = 1, b = 2 }\n", "t.b", 3, "t = { a = 1, b = 3 }\n"),
        ("[[t]]\na = 1\n[[t]]\na = 2\n", "t.1.a", 3, "[[t]]\na = 1\n[[t]]\na = 3\n"),
        ("t = [{ a = 1 }, { a = 2 }]\n", "t.0.a", 3, "t = [{ a = 3 }, { a = 2 }]\n"),
        ("a = [1, 2]\n", "a.1", 3, "a = [1, 3]\n"),
        ('a = """\nx\n""" # c\n', "a", "y", 'a = "y" # c\n'),
        ("a = [ # c\n 1,\n]\nb = 2\n", "a", [3], "a = [ # c\n 3,\n]\nb = 2\n"),
        ("a = [\n 1, # c\n 2, # d\n]\n", "a", [1, 3], "a = [\n 1, # c\n 3, # d\n]\n"),
        ("a = [\n 1, # c\n]\n", "a", [1, 2, 3], "a = [\n 1, 2, 3, # c\n]\n"),
        ("a = [\n 1 # c\n]\n", "a", [0, 1], "a = [\n 0, 1 # c\n]\n"),
        ("a = [\n [1, 2], # c\n]\n", "a", [[1, 3]], "a = [\n [1, 3], # c\n]\n"),
        ("a = [\n 1,\n 2\n]\n", "a", [1], "a = [1]\n"),
        ("a = [1, 2]\n", "a", [2, 1], "a = [2, 1]\n"),
        ("a = []\n", "a", ["x"], 'a = ["x"]\n'),
        ("a = [1, true]\n", "a", [1.0, 1], "a = [1.0, 1]\n"),
        ("a = [{ b = 1 }, 2]\n", "a", [{"b": 1}, 3], "a = [{ b = 1 }, 3]\n"),
        ("a = [1] # c\n", "a", "x", 'a = "x" # c\n'),
        ("a = ['x', 'y']\n", "a", ["x", "z"], "a = ['x', 'z']\n"),
        ("a = ['x']\n", "a", ["x", "z"], "a = ['x', 'z']\n"),
        ("a = 'x'\n", "a", "y", "a = 'y'\n"),
        ("a = 'x'\n", "a", "it's", 'a = "it\'s"\n'),
        ('a = "it\'s"\n', "a", "x", 'a = "x"\n'),
        ("a = '''\nx''' # c\n", "a", "y", "a = 'y' # c\n"),
        ('"a b" = 1\n', "a b", 2, '"a b" = 2\n'),
        ("'ä' = '漢' # 😀\n", "ä", "é", "'ä' = 'é' # 😀\n"),
        ("a = 1\n", "a", 'say "\\"', 'a = "say \\"\\\\\\""\n'),
        ("a = 1\n", "a", [0.5, 1e-5, [True]], "a = [0.5, 1e-05, [true]]\n"),
    ],
)
def test_set_a_value(text, path, value, after):
    expected = edited(text, set_values, {path_of(path): value})
    assert expected == (after, tomllib.loads(after))
    assert canonical(dict(walk(expected[1]))[path_of(path)]) == canonical(value)


def test_an_integer_too_long_to_print_stays_as_it_is():
    """Python prints at most 4,300 digits of a decimal, and TOML has hexadecimals."""
    huge = "0x" + "f" * 5000
    document = parse(f"a = [{huge}, 1]\n".encode())
    edits = set_values(document, {("a",): [int(huge, 16), 2]})
    assert apply(document.text, edits) == f"a = [{huge}, 2]\n"


@pytest.mark.parametrize("value", [[2, 1], [1], [], [2, 3, 4, 5, 1], "x", 5], ids=repr)
def test_a_value_with_comments_inside_is_not_replaced(value):
    """Where items go or move, nobody knows what becomes of their comments."""
    with pytest.raises(CannotEdit, match="a comment would be lost"):
        edited("a = [\n 1, # c\n 2,\n]\n", set_values, {("a",): value})


def test_a_value_with_comments_inside_is_not_removed():
    with pytest.raises(CannotEdit, match="a comment would be lost"):
        edited("a = [\n 1, # c\n]\nb = 2\n", remove_key, ("a",))


ADDED = [
    ("", "t.a", "[t]\na = 0\n"),
    ("b = 1\n", "a", "b = 1\na = 0\n"),
    ("b = 1", "a", "b = 1\na = 0"),
    ("[t]", "t.a", "[t]\na = 0"),
    ("[t]\n", "t.a", "[t]\na = 0\n"),
    ("[ t ] # c\r\n[u]\r\n", "t.a", "[ t ] # c\r\na = 0\r\n[u]\r\n"),
    ("[t]\nb = 1 # c\n\n[u]\n", "t.a", "[t]\nb = 1 # c\na = 0\n\n[u]\n"),
    ("[t]\n  b = 1\n", "t.a", "[t]\n  b = 1\n  a = 0\n"),
    ("[t]\nb = [\n 1, # c\n]\nc = 2\n", "t.a", None),
    ('[t]\nb = """\nx"""\n', "t.a", '[t]\nb = """\nx"""\na = 0\n'),
    ("t.b = 1\nc = 2\n", "t.a", "t.b = 1\nt.a = 0\nc = 2\n"),
    ("t . b = 1\n", "t.a", "t . b = 1\nt . a = 0\n"),
    ("[s]\nt.b = 1\n", "s.t.a", "[s]\nt.b = 1\nt.a = 0\n"),
    ("t.s.b = 1\nc = 2\n", "t.a", "t.s.b = 1\nt.a = 0\nc = 2\n"),
    ("[r]\nt.s.b = 1\n", "r.t.a", "[r]\nt.s.b = 1\nt.a = 0\n"),
    ("t = { b = 1 }\n", "t.a", "t = { b = 1, a = 0 }\n"),
    ("t = {}\n", "t.a", "t = { a = 0 }\n"),
    ("t = { s.b = 1 }\n", "t.a", "t = { s.b = 1, a = 0 }\n"),
    ("[[t]]\n[[t]]\nb = 1\n", "t.0.a", "[[t]]\na = 0\n[[t]]\nb = 1\n"),
    ("[[t]]\n[[t]]\nb = 1\n", "t.1.a", "[[t]]\n[[t]]\nb = 1\na = 0\n"),
    ("[[t]]\n[t.s]\n", "t.0.s.a", "[[t]]\n[t.s]\na = 0\n"),
    ("t = [{ b = 1 }]\n", "t.0.a", "t = [{ b = 1, a = 0 }]\n"),
    ("[t.s]\nb = 1\n", "t.a", "[t.s]\nb = 1\n\n[t]\na = 0\n"),
    ("[t.s]\n[t]\n# c\n", "t.a", "[t.s]\n[t]\na = 0\n# c\n"),
    ("[t]\n[t.s]\nb = 1\n", "t.a", "[t]\na = 0\n[t.s]\nb = 1\n"),
    ('["t u"]\nb = 1\n', "t u.x y", '["t u"]\nb = 1\n"x y" = 0\n'),
    ("['t']\n", "t.a", "['t']\na = 0\n"),
    ("# only a comment", "t.a", "# only a comment\n\n[t]\na = 0\n"),
    ("b = 1\r\n", "t.a", "b = 1\r\n\r\n[t]\r\na = 0\r\n"),
    ("x = 1\n", "t u.a", 'x = 1\n\n["t u"]\na = 0\n'),
]


@pytest.mark.parametrize(("text", "path", "after"), ADDED)
def test_add_a_key(text, path, after):
    said, values = edited(text, set_values, {path_of(path): 0})
    assert dict(walk(values))[path_of(path)] == 0
    if after is not None:
        assert said == after


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[[t]]\nb = 1\n", "t.a"),
        ("t = [1]\n", "t.a"),
        ("t = 5\n", "t.a"),
        ("[t]\na.b = 1\n", "t.a"),
        ("[t.a]\n", "t.a"),
        ("x = [[ { b.c = 1 } ]]\n", "x.0.0.b.a"),
        ("t = { s.b = 1 }\n", "t.s.a"),
        ("", "t.0.a"),
        ("[t]\n", "t.\n"),
    ],
)
def test_a_key_that_cannot_be_added(text, path):
    with pytest.raises(CannotEdit):
        edited(text, set_values, {path_of(path): 0})


def test_several_keys_of_one_table_are_added_at_once():
    values = {("t", "b"): 1, ("t", "a"): 2, ("u", "c"): 3, ("x",): 4}
    assert edited("x = 0\n", set_values, values)[0] == (
        "x = 4\n\n[t]\nb = 1\na = 2\n\n[u]\nc = 3\n"
    )


@pytest.mark.parametrize("text", ["[t]\nz = 0\n", "[t]\n", "t = { z = 0 }\n", "t = {}"])
def test_several_keys_keep_their_order(text):
    _, values = edited(text, set_values, {("t", "b"): 1, ("t", "a"): 2})
    assert list(values["t"])[-2:] == ["b", "a"]


@pytest.mark.parametrize(
    ("text", "path", "name", "after"),
    [
        ("a = 1 # a\n", "a", "b", "b = 1 # a\n"),
        ("'a' = 1\r\n", "a", "b c", '"b c" = 1\r\n'),
        ("[t]\na = 1\n[u]\na = 2\n", "u.a", "b", "[t]\na = 1\n[u]\nb = 2\n"),
        ("[t] # c\na = 1\n", "t", "u", "[u] # c\na = 1\n"),
        ("[t]\n[t.s]\n[t.s.r]\n", "t", "u", "[u]\n[u.s]\n[u.s.r]\n"),
        ("[t.s]\n[t]\n", "t.s", "r", "[t.r]\n[t]\n"),
        ("t.a = 1\nt.b = 2\n", "t", "u", "u.a = 1\nu.b = 2\n"),
        ("[[t]]\na = 1\n[[t]]\na = 2\n", "t", "u", "[[u]]\na = 1\n[[u]]\na = 2\n"),
        ("[[t]]\n[t.s]\n[[t]]\n", "t", "u", "[[u]]\n[u.s]\n[[u]]\n"),
        ("[[t]]\na = 1\n[[t]]\na = 2\n", "t.1.a", "b", None),
        ("t = { a = 1, b = 2 }\n", "t.a", "c", "t = { c = 1, b = 2 }\n"),
        ("t = { s.a = 1, s.b = 2 }\n", "t.s", "r", "t = { r.a = 1, r.b = 2 }\n"),
    ],
)
def test_rename_a_key(text, path, name, after):
    said, values = edited(text, rename_key, path_of(path), name)
    assert (*path_of(path)[:-1], name) in dict(walk(values))
    assert path_of(path) not in dict(walk(values))
    if after is not None:
        assert said == after


@pytest.mark.parametrize(
    ("text", "path", "name"),
    [
        ("a = 1\nb = 2\n", "a", "b"),
        ("[t]\n[u]\n", "t", "u"),
        ("t.a = 1\n[u]\n", "t", "u"),
        ("a = 1\n", "x", "b"),
        ("a = [1]\n", "a.0", "b"),
    ],
)
def test_a_key_that_cannot_be_renamed(text, path, name):
    with pytest.raises(CannotEdit):
        edited(text, rename_key, path_of(path), name)


@pytest.mark.parametrize(
    ("text", "path", "after"),
    [
        ("a = 1\nb = 2\n", "a", "b = 2\n"),
        ("a = 1\nb = 2", "b", "a = 1\n"),
        ("a = 1\r\nb = 2\r\n", "a", "b = 2\r\n"),
        ("a = 1", "a", ""),
        ("  a = 1  # why\nb = 2\n", "a", "# why\nb = 2\n"),
        ("# above\na = 1\n", "a", "# above\n"),
        ("a = [\n 1,\n]\nb = 2\n", "a", "b = 2\n"),
        ('a = """\n\n"""\nb = 2\n', "a", "b = 2\n"),
        ("[t]\na = 1\n", "t.a", "[t]\n"),
        ("t.a = 1\nt.b = 2\n", "t.a", "t.b = 2\n"),
        ("[[t]]\na = 1\n[[t]]\na = 2\n", "t.1.a", "[[t]]\na = 1\n[[t]]\n"),
        ("t = { a = 1, b = 2 }\n", "t.a", "t = { b = 2 }\n"),
        ("t = { a = 1, b = 2 }\n", "t.b", "t = { a = 1 }\n"),
        ("t = {a=1,b=2,c=3}\n", "t.b", "t = {a=1,c=3}\n"),
        ("t = { a = 1 } # c\n", "t.a", "t = { } # c\n"),
        ("t = [{ a = 1 }, 2]\n", "t.0.a", "t = [{ }, 2]\n"),
    ],
)
def test_remove_a_key(text, path, after):
    assert edited(text, remove_key, path_of(path)) == (after, tomllib.loads(after))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a = 1\n", "b"),
        ("[t]\na = 1\n", "t"),
        ("a = [1, 2]\n", "a.0"),
        ("t = { s.a = 1, b = 2 }\n", "t.s.a"),
        ("x = [\n { s.a = 1 },\n]\n", "x.0.s.a"),
    ],
)
def test_a_key_that_cannot_be_removed(text, path):
    with pytest.raises(CannotEdit):
        edited(text, remove_key, path_of(path))


@pytest.mark.parametrize(
    ("text", "path", "to", "after"),
    [
        ("[t]\na = 1 # c\n[u]\nb = 2\n", "t.a", "u.a", "[t]\n[u]\nb = 2\na = 1 # c\n"),
        ("[t]\na=0x1F\n", "t.a", "u.a", "[t]\n\n[u]\na=0x1F\n"),
        ("[t]\na = 1", "t.a", "u.a", "[t]\n\n\n[u]\na = 1\n"),
        ("t.a = 1\nu.b = 2\n", "t.a", "u.a", "u.b = 2\nu.a = 1\n"),
        ("u.b = 2\nt.a = 1\n", "t.a", "u.a", "u.b = 2\nu.a = 1\n"),
        ("a = 1\n[u]\n", "a", "u.a", "[u]\na = 1\n"),
        ("[t]\na = [\r\n 1,\r\n]\r\n[u]\r\n", "t.a", "u.c", None),
    ],
)
def test_move_a_key(text, path, to, after):
    before = dict(walk(tomllib.loads(text)))
    said, values = edited(text, move_key, path_of(path), path_of(to))
    assert dict(walk(values))[path_of(to)] == before[path_of(path)]
    assert path_of(path) not in dict(walk(values))
    if after is not None:
        assert said == after


@pytest.mark.parametrize(
    ("text", "path", "to"),
    [
        ("[t]\na = 1\n[u]\na = 2\n", "t.a", "u.a"),
        ("[t]\na = 1\n[t2]\nu = {}\n", "t.a", "t2.u.a"),
        ("t = { a = 1 }\n", "t.a", "u.a"),
        ("[t]\n", "t", "u.t"),
        ("t = { s.a = 1 }\n", "t.s.a", "u.a"),
    ],
)
def test_a_key_that_cannot_be_moved(text, path, to):
    with pytest.raises(CannotEdit):
        edited(text, move_key, path_of(path), path_of(to))


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
    assert edited(text, add_header, path_of(path), "s") == (after, tomllib.loads(after))


@pytest.mark.parametrize(
    "text", ["a = 1\nx.y = 1\n", "a = 1\nx = {}\n", "a = 1\nx.y.z = 2\n[t]\n", "b = 1"]
)
def test_a_header_that_would_swallow_another_section(text):
    with pytest.raises(CannotEdit):
        edited(text, add_header, ("a",), "s")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (-3, "-3"),
        (2**63 - 1, "9223372036854775807"),
        (1e16, "1e+16"),
        (float("inf"), "inf"),
        ("a\\b", '"a\\\\b"'),
        ((), "[]"),
    ],
)
def test_literal(value, text):
    assert literal(value) == text
    assert tomllib.loads(f"x = {text}")["x"] == (list(value) if value == () else value)


@pytest.mark.parametrize(
    "value", [None, {}, 2**63, -(2**63) - 1, "a\nb", "\u200b", [None]]
)
def test_what_has_no_literal(value):
    with pytest.raises(CannotEdit):
        literal(value)


def test_edits_that_touch_are_applied_and_those_that_overlap_are_not():
    edits = [Edit(2, 2, "-"), Edit(2, 4, "CD"), Edit(0, 2, "AB")]
    assert apply("abcdef", edits) == "AB-CDef"
    assert in_order(edits) == [Edit(0, 2, "AB"), Edit(2, 2, "-"), Edit(2, 4, "CD")]
    with pytest.raises(CannotEdit, match="overlap"):
        apply("abcdef", [Edit(0, 3, ""), Edit(2, 4, "")])


def at(values, path):
    for part in path:
        values = values[part]
    return values


def without_empty(values):
    """Values without the tables that hold nothing."""
    if isinstance(values, list):
        return [without_empty(value) for value in values]
    if not isinstance(values, dict):
        return values
    kept = {key: without_empty(value) for key, value in values.items()}
    return {key: value for key, value in kept.items() if value != {}}


def keys_of(values):
    return [path for path, _ in walk(values) if isinstance(path[-1], str)]


def tables_of(values):
    return [(), *(path for path, value in walk(values) if isinstance(value, dict))]


def tried(text, edit, *arguments):
    """The values after an edit, unless it is refused, or TOML does not allow it."""
    document = parse(text.encode())
    try:
        made = edit(document, *arguments)
        edits = in_order([made] if isinstance(made, Edit) else made)
        after = apply(document.text, edits)
        values = tomllib.loads(after)
    except (CannotEdit, tomllib.TOMLDecodeError):
        assume(False)
    check_the_rest(document, edits, after)
    return values


def check_the_rest(document: Document, edits, after):
    """Outside the edits every byte stays, and so does every comment."""
    shift = end = 0
    for edit in edits:
        assert (
            after[end + shift : edit.start + shift] == (document.text[end : edit.start])
        )
        shift += len(edit.text) - (edit.end - edit.start)
        end = edit.end
    assert after[end + shift :] == document.text[end:]
    outside = [
        document.text[start:stop]
        for start, stop in comments(document.text)
        if not any(edit.start <= start < edit.end for edit in edits)
    ]
    left = [after[slice(*span)] for span in comments(after)]
    assert all(left.count(comment) >= outside.count(comment) for comment in outside)


NAMES = st.sampled_from(["zz", "a", "b", "ä ö", "x.y"])


@SLOWLY
@given(documents(), st.data())
def test_a_value_that_is_set_is_the_only_change(generated, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    value = data.draw(scalars)
    expected = copy.deepcopy(values)
    at(expected, path[:-1])[path[-1]] = value
    said = tried(text, lambda document: set_values(document, {path: value}))
    assert canonical(said) == canonical(expected)


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_key_that_is_added_is_the_only_change(generated, name, data):
    text, values = generated
    table = data.draw(st.sampled_from(tables_of(values)))
    assume(name not in at(values, table))
    expected = copy.deepcopy(values)
    at(expected, table)[name] = 7
    said = tried(text, lambda document: set_values(document, {(*table, name): 7}))
    assert canonical(said) == canonical(expected)


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_name_that_is_given_is_the_only_change(generated, name, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    expected = copy.deepcopy(values)
    table = at(expected, path[:-1])
    table[name] = table.pop(path[-1])
    assert canonical(tried(text, rename_key, path, name)) == canonical(expected)


@SLOWLY
@given(documents(), st.data())
def test_a_key_that_is_removed_is_the_only_change(generated, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    expected = copy.deepcopy(values)
    del at(expected, path[:-1])[path[-1]]
    said = without_empty(tried(text, remove_key, path))
    assert canonical(said) == canonical(without_empty(expected))


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_key_that_is_moved_is_the_only_change(generated, name, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    table = data.draw(st.sampled_from(tables_of(values)))
    assume(table[: len(path)] != path)
    expected = copy.deepcopy(values)
    value = at(expected, path[:-1]).pop(path[-1])
    at(expected, table)[name] = value
    said = without_empty(tried(text, move_key, path, (*table, name)))
    assert canonical(said) == canonical(without_empty(expected))
