"""Each character of a string is found where the file says it."""

import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from fp8tune.formats.toml.strings import offset_in_string
from tests.each import each
from tests.formats.toml.writer import Writer, texts


def found(text, inside):
    """What stands in a text ``x = STRING`` for one character of the string."""
    return text[offset_in_string(text, 4, inside) :]


@each(
    ("string", "inside", "rest"),
    [
        ("'a\\nb'", 2, "nb'"),
        (r'"\u00e9b"', 1, 'b"'),
        (r'"\\\tb"', 2, 'b"'),
        ('"""\r\nabc"""', 1, 'bc"""'),
        ('"""a\\\n   b"""', 1, '\\\n   b"""'),
        ("'''\na\r\nb'''", 2, "b'''"),
        ('"ab', 9, ""),
    ],
)
def test_offset_in_string(string, inside, rest):
    assert found(f"x = {string}", inside) == rest


@settings(max_examples=200)
@given(texts, st.randoms(use_true_random=False), st.data())
def test_what_is_before_a_character_in_the_file_is_before_it_in_the_value(
    value, dice, data
):
    string = Writer(dice).value(value)
    inside = data.draw(st.integers(0, len(value)))
    quote = string[:3] if string[:3] in ('"""', "'''") else string[0]
    head = string[: offset_in_string(string, 0, inside)]
    assert tomllib.loads(f"x = {head}{quote}")["x"] == value[:inside]
