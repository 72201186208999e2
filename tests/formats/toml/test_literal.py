"""Values as TOML writes them."""

import tomllib

import pytest

from fp8tune.formats.edits import CannotEdit
from fp8tune.formats.toml.literal import literal
from tests.each import each


@each(
    ("value", "text"),
    [
        (True, "true"),
        (-3, "-3"),
        (2**63 - 1, "9223372036854775807"),
        (1e16, "1e+16"),
        (float("inf"), "inf"),
        ("a\\b", '"a\\\\b"'),
        ((), "[]"),
        ({"a b": 1, "type": "fp8"}, '{ "a b" = 1, type = "fp8" }'),
    ],
)
def test_literal(value, text):
    assert literal(value) == text
    assert tomllib.loads(f"x = {text}")["x"] == (list(value) if value == () else value)


@each("value", [None, {}, 2**63, -(2**63) - 1, "a\nb", "\u200b", [None]])
def test_what_has_no_literal(value):
    with pytest.raises(CannotEdit):
        literal(value)
