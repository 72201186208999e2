"""Words without quotes as values: the hint says what to write."""

import pytest

from fp8tune.formats.toml.document import InvalidToml, parse
from fp8tune.lint.unparsed import unquoted_hint
from tests.each import each


def said(text):
    with pytest.raises(InvalidToml) as error:
        parse(text.encode())
    return unquoted_hint(error.value)


@each(
    ("value", "word"),
    [
        ("fp8", "fp8"),
        ("selective\r\nb = 1", "selective"),
        ("[text, image]", "text"),
        ('["text", image]', "image"),
        ("{ b = sdpa }", "sdpa"),
        ("auto\nb = fp8", "auto"),
    ],
)
def test_text_without_quotes(value, word):
    assert said(f"[t]\na = {value}\n") == f'a string needs quotes: write "{word}"'


@each(
    ("value", "hint"),
    [
        ("True", "write `true`"),
        ("yes", "write `true`"),
        ("tru", "write `true`"),
        ("None", "TOML has no empty value: remove the key"),
    ],
)
def test_words_of_other_languages(value, hint):
    assert said(f"a = {value}\n") == hint


@each(
    "text",
    [
        "a = my model",
        "a = fp8=1",
        "a = [fp8 x]",
        "a = 4k",
        "a = ",
        "fp8",
        "a = 1\na = 2",
        "[t",
    ],
)
def test_where_nothing_is_certain(text):
    assert said(text) == ""


def test_the_finding(lint):
    (found,) = lint("[train]\nmixed_precision = fp8\n").diagnostics
    assert (found.rule, found.help) == (
        "invalid-toml",
        'a string needs quotes: write "fp8"',
    )
