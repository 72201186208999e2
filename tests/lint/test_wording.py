"""Messages: placeholders, formats, and values as TOML writes them."""

import datetime

import pytest

from fp8tune.conditions import ExpressionError
from fp8tune.conditions.expression import compile_expression
from fp8tune.job import Unknown, Words
from fp8tune.lint.wording import as_written, compile_template, with_parts
from fp8tune.words import MAX_SHOWN, plain, shown
from tests.each import each

SCOPE = {
    "n": 1234567,
    "x": 0.98765,
    "s": "fp8",
    "w": Words("train.tp"),
    "b": True,
    "big": 10**400,
}


def compile_one(source):
    return compile_expression(source, SCOPE.__contains__, {})


def fill(text):
    return compile_template(text, compile_one).fill(SCOPE)


@each(
    ("text", "filled"),
    [
        ("", ""),
        ("{n}", "1234567"),
        ("a {n} b {s} c", 'a 1234567 b "fp8" c'),
        ("{{{n}}}", "{1234567}"),
        ("{n:,}", "1,234,567"),
        ("{x:.1f}", "1.0"),
        ("{x:.0%}", "99%"),
        ("{100 * x:.0f}%", "99%"),
        ("{s:.1f}", '"fp8"'),
        ("{w:.1f}", "train.tp"),
        ("{b}", "true"),
        ("{big:.1f}", "a number of more than 77 digits"),
        ("{n if b else x:,}", "1,234,567"),
    ],
)
def test_fill(text, filled):
    assert fill(text) == filled


@each(
    ("text", "offset", "reason"),
    [
        ("{", 0, "a lone brace; write {{ or }}"),
        ("a }", 2, "a lone brace; write {{ or }}"),
        ("a {nosuch}", 3, "unknown name `nosuch`"),
        ("a {n + nosuch:.1f}", 7, "unknown name `nosuch`"),
        ("{n!r}", 1, "invalid syntax"),
    ],
)
def test_error(text, offset, reason):
    with pytest.raises(ExpressionError) as error:
        compile_template(text, compile_one)
    assert reason in error.value.reason
    assert offset <= error.value.offset <= offset + 2


def test_fill_raises_unknown():
    class Scope(dict):
        def __missing__(self, name):
            raise Unknown(name)

    with pytest.raises(Unknown):
        compile_template("{n}", compile_one).fill(Scope())


@each(
    ("value", "text"),
    [
        (None, "unset"),
        (True, "true"),
        (-5, "-5"),
        (1e-8, "1e-08"),
        (float("nan"), "nan"),
        ("", '""'),
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ("a\nb", r'"a\u000ab"'),
        (Words("a b"), "a b"),
        ([1, "a", True], '[1, "a", true]'),
        ({"a": 1, "b": "c"}, '{ a = 1, b = "c" }'),
        ([[[[[1]]]]], "[[[[...]]]]"),
        ([1] * 20, "[" + ", ".join(["1"] * 16) + "]"),
        ({str(i): i for i in range(10)}, None),
        (datetime.date(2024, 5, 1), "2024-05-01"),
        (2**256 - 1, None),
        (-(2**300), "a number of more than 77 digits"),
    ],
)
def test_shown(value, text):
    if text is None:
        assert len(shown(value)) <= MAX_SHOWN
    else:
        assert shown(value) == text


@pytest.mark.parametrize(
    "value", ["x" * 1000, ["y" * 50] * 5, {"k" * 100: "v" * 100}, {"a": ["\n" * 900]}]
)
def test_long_values_are_cut(value):
    text = shown(value)
    assert len(text) == MAX_SHOWN
    assert text.endswith(" ...")


@each(
    ("text", "safe"),
    [
        ("abc äöü 漢字", "abc äöü 漢字"),
        ("\x1b[31mred", r"\u001b[31mred"),
        ("a\rb", r"a\u000db"),
        ("\x7f\x80\x9f", r"\u007f\u0080\u009f"),
        ("\u202eabc", r"\u202eabc"),
        ("\u2066a\u2069", r"\u2066a\u2069"),
        ("\u200b\ufeff\u061c", r"\u200b\ufeff\u061c"),
        ("\u2028", r"\u2028"),
    ],
)
def test_plain_escapes_what_acts_on_a_terminal(text, safe):
    assert plain(text) == safe


@each(
    ("text", "written"),
    [
        ("`a.b = 8` and `c = unset`", "`a.b: 8` and `c: null`"),
        ('`a = { b = unset, c = "unset" }`', '`a: { b: null, c: "unset" }`'),
        ("M = 8, `x y = 3`, 3 = `a`", "M = 8, `x y = 3`, 3 = `a`"),
    ],
)
def test_settings_as_the_file_has_them(text, written):
    forms = ("toml", "yaml")
    assert [as_written(text, form, bool) for form in forms] == [text, written]


@each(
    ("text", "written"),
    [
        ("`seq_length` is missing", "`--seq-length` is missing"),
        ("`seq_length = 8` is", "`--seq-length 8` is"),
        ('`fp8_format = "e4m3"`', "`--fp8-format e4m3`"),
        ("`bf16 = true` and `lr = unset`", "`--bf16` and no `--lr`"),
        (
            "seq_length (8), fp8_format='e4m3'.",
            "--seq-length (8), --fp8-format e4m3.",
        ),
        ("`--seq-length`, lr and bf16", "`--seq-length`, lr and bf16"),
        ("core/seq_length.py, a.seq_length", "core/seq_length.py, a.seq_length"),
        ("`environment`, `no_key`, no_key", "`environment`, `no_key`, no_key"),
    ],
)
def test_keys_are_flags_in_a_script(text, written):
    keys = {"seq_length", "fp8_format", "bf16", "lr", "environment"}
    assert as_written(text, "bash", keys.__contains__) == written


@each(
    ("text", "expected"),
    [
        ("`training.lr` is not set", "`lr` in the training arguments is not set"),
        ("set `training.bf16: false`", "set `bf16: false` in the training arguments"),
        ("no file `training.yaml`", "no file `training.yaml`"),
        ("`fp8_config.backend`", "`fp8_config.backend`"),
    ],
)
def test_keys_of_another_file_of_the_job(text, expected):
    keys = {"training.lr", "training.bf16", "fp8_config.backend"}
    titles = {"training": "the training arguments", "deepspeed": ""}
    assert with_parts(text, titles, keys.__contains__) == expected
