"""Edits of a YAML text: what changes, and what is refused."""

import pytest

from fp8tune.formats.edits import CannotEdit, Edit, apply, in_order
from fp8tune.formats.yaml.document import parse
from tests.each import each


def after(text, name, *arguments):
    document = parse(text.encode())
    made = getattr(document, name)(*arguments)
    return apply(document.text, in_order([made] if isinstance(made, Edit) else made))


SECTION = "a: 1 # c\nsec:\n    b: te  # x\n\n# tail\n"
SET = [
    (SECTION, {("sec", "b"): "TE"}, "a: 1 # c\nsec:\n    b: TE  # x\n\n# tail\n"),
    (
        SECTION,
        {("sec", "c"): 5e-5, ("new", "x"): True, ("z",): "a b"},
        "a: 1 # c\nsec:\n    b: te  # x\n    c: 5.0e-05\n"
        'new:\n    x: true\nz: "a b"\n\n# tail\n',
    ),
    ("s: # h\nb: 1", {("s", "c"): "x"}, "s: # h\n  c: x\nb: 1"),
    ("l:\n- a  # c\n- b\n", {("l",): ["a", "c"]}, "l:\n- a  # c\n- c\n"),
    ("l: [1, '2'] # c\n", {("l",): [1, "3"]}, "l: [1, '3'] # c\n"),
    ("d: {a: 1}\n", {("d", "b", "c"): [1]}, "d: {a: 1, b: {c: [1]}}\n"),
    ("d: {}\n", {("d", "b"): 1}, "d: {b: 1}\n"),
    ("a: 1\r\ns:\r\n  b: 1\r\n", {("s", "c"): 1}, "a: 1\r\ns:\r\n  b: 1\r\n  c: 1\r\n"),
    ("# only\n", {("s", "c"): 1}, "# only\ns:\n  c: 1\n"),
    ("a: 'x'\n", {("a",): "it's"}, "a: 'it''s'\n"),
    ("a: x\n", {("a",): "5e-5"}, 'a: "5e-5"\n'),
    ("a: &x 1\n", {("a",): 2}, "a: &x 2\n"),
]


@each(("text", "values", "expected"), SET)
def test_set_values(text, values, expected):
    assert after(text, "set_values", values) == expected


@each(
    ("text", "name", "arguments", "expected"),
    [
        ("a: 1\nb: 2 # k\nc: 3\n", "remove_key", [("b",)], "a: 1\n# k\nc: 3\n"),
        ("a:\n  b: 2 # k\nc: 3\n", "remove_key", [("a", "b")], "a:\n  {} # k\nc: 3\n"),
        ("l:\n- a: 1\n  b: 2\n", "remove_key", [("l", 0, "a")], "l:\n- b: 2\n"),
        ("s: {a: 1, b: 2}\n", "remove_key", [("s", "b")], "s: {a: 1}\n"),
        ("s: {a: 1, b: 2}\n", "remove_key", [("s", "a")], "s: {b: 2}\n"),
        ("a: 1\nl:\n- x\n- y\nb: 2\n", "remove_key", [("l",)], "a: 1\nb: 2\n"),
        ("'a b': 1 # c\n", "rename_key", [("a b",), "c"], "c: 1 # c\n"),
        ("a: {b: 1}\n", "move_key", [("a", "b"), ("a", "no")], 'a: {"no": 1}\n'),
        (
            "# of a\na: 1\n# of b\nb: 2 # x\ns:\n  c: 1\n",
            "move_key",
            [("b",), ("s", "d")],
            "# of a\na: 1\ns:\n  c: 1\n  # of b\n  d: 2 # x\n",
        ),
    ],
)
def test_keys(text, name, arguments, expected):
    assert after(text, name, *arguments) == expected


SHARED = "in this layout, other values would change too"


@each(
    ("text", "name", "arguments", "reason"),
    [
        ("x: &x 1\ny: *x\n", "set_values", [{("y",): 2}], SHARED),
        ("x: &x {a: 1}\ny: {<<: *x}\n", "rename_key", [("y", "a"), "b"], SHARED),
        ("x: &x {a: 1}\ny: {<<: *x}\n", "remove_key", [("y", "a")], "a key that <<"),
        ("s:\n  a: 1\n", "set_values", [{("s",): 2}], "`s` is a table"),
        ("a: [1, # c\n 2]\n", "set_values", [{("a",): 2}], "a comment would be lost"),
        ("a: !!str 1\n", "set_values", [{("a",): 2}], "a value with a tag"),
        ("a: 1\n", "set_values", [{("a",): "\x07"}], "a string with control"),
        ("a: 1\nb: 2\n", "rename_key", [("a",), "b"], "`b` is already there"),
        ("a: 1\ns:\n  b: 1\n", "move_key", [("a",), ("s", "b")], "no room for it"),
        ("a: x\n  y\ns:\n", "move_key", [("a",), ("s", "b")], "a value of several"),
        ("a: 1\n", "add_header", [("a",), "s"], "YAML has no headers"),
    ],
)
def test_what_is_refused(text, name, arguments, reason):
    with pytest.raises(CannotEdit) as error:
        after(text, name, *arguments)
    assert str(error.value).startswith(reason)
