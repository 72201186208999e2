"""Parsing bytes: what is refused, and where."""

import pytest

from fp8tune.formats.document import MAX_BYTES, Position, Unreadable
from fp8tune.formats.toml.document import MAX_KEY_PARTS, InvalidToml, parse
from tests.each import each
from tests.formats.toml.corpus import DIGITS

BOM = b"\xef\xbb\xbf"
DEEP = 20_000


def refused(data):
    with pytest.raises(InvalidToml) as error:
        parse(data)
    return error.value


@pytest.mark.parametrize("data", [b"", b"# x", b"a = 1\n", b"\r\n[b]\n"])
def test_a_bom_is_flagged_and_cut_off(data):
    plain, marked = parse(data), parse(BOM + data)
    assert (plain.bom, marked.bom) == (False, True)
    assert (marked.text, marked.values) == (plain.text, plain.values)
    assert marked.spans == plain.spans


def test_positions_after_a_bom():
    document = parse(BOM + b"a = 1\nb = 2")
    assert document.lines.position(document.span(("a",), "value")[0]) == (1, 5)
    assert document.lines.position(document.span(("b",), "key")[0]) == (2, 1)
    assert document.lines.line(1) == "a = 1"


@each(
    ("data", "line", "column", "byte"),
    [
        (b"a = '\xff'", 1, 6, "0xff"),
        (b"a = 1\n# \xe4 x\n", 2, 3, "0xe4"),
        (b"# \xc3\xa4\xf0\x9f\x98\x80\xfe", 1, 5, "0xfe"),
        (b"a = 1\n\xc0\x80", 2, 1, "0xc0"),
        (b"\xff\xfea\0 \0=\0 \x001\0", 1, 1, "0xff"),
        (BOM + b"a = '\xff'", 1, 6, "0xff"),
    ],
)
def test_invalid_utf_8(data, line, column, byte):
    error = refused(data)
    assert error.position == Position(line, column)
    assert error.reason.startswith(f"not UTF-8: byte {byte} (")
    assert error.text.splitlines()[line - 1].lstrip("\ufeff")[column - 1] == "\ufffd"


@each(
    ("text", "line", "column"),
    [
        ("a =", 1, 4),
        ("a b = 1", 1, 3),
        ("a = 1 b = 2", 1, 7),
        ("a = 01", 1, 6),
        ('a = "x\ny"', 1, 7),
        (r'a = "\ud800"', 1, 12),
        ("a = [1,\n2\n", 3, 1),
        ("a = {b = 1\n}", 1, 11),
        ("[a]\n[a]", 2, 3),
        ("a = 1\n[a.b]", 2, 5),
        ("a = 2024-13-01", 1, 9),
        ("a = tru", 1, 5),
        ("x = 'ä' ö", 1, 9),
        ("x = 1\r\ny = ?", 2, 5),
        ("x = 1 # \x1b", 1, 9),
    ],
)
def test_syntax_errors(text, line, column):
    error = refused(text.encode())
    assert error.position == Position(line, column)
    assert error.text == text
    assert "(at " not in error.reason
    assert "\n" not in error.reason


def test_a_syntax_error_after_a_bom():
    assert refused(BOM + b"a = ?").position == Position(1, 5)


@each("opening", ["[", "[ # [\n", "{a = ", "{'a b' = [\n"])
@each("closed", [False, True])
def test_deep_nesting(opening, closed):
    closing = "".join({"[": "]", "{": "}"}.get(c, "") for c in opening[::-1])
    error = refused(f"deep = {opening * DEEP}{closing * DEEP * closed}".encode())
    assert error.reason == "nested too deeply for the parser"


@each("number", ["DIGITS", "[1, DIGITS]", "{a = DIGITS}", f"{'1_' * 6000}1"])
def test_integers_of_too_many_digits(number):
    error = refused(f"x = 1\nn = {number.replace('DIGITS', DIGITS)}".encode())
    assert error.reason == "an integer of more than 4300 digits"


def test_integers_that_are_just_short_enough():
    text = f"a = {'9' * 4300}\nb = 0x{'f' * 6000}"
    assert parse(text.encode()).values == {
        "a": int("9" * 4300),
        "b": int("f" * 6000, 16),
    }


@pytest.mark.parametrize("size", [MAX_BYTES + 1, 3 * MAX_BYTES])
def test_too_large(size):
    with pytest.raises(Unreadable, match=r"more than 1 MiB is not a train config"):
        parse(b"#" * size)


def dotted_key(form, parts):
    return form.replace("KEY", parts).encode()


PARTS = ["a", "''", "'x y'", r'"\""', r'"\"x"', "'\"'"]


@each(
    ("form", "part", "dot"),
    [
        *(("KEY = 1", part, ".") for part in PARTS),
        *((form, "a", ".") for form in ("[KEY]", "[[KEY]]", "x = {KEY = 1}", "KEY=1")),
        *(("x = 1\nKEY = 1", "a", dot) for dot in (" . ", "\t.  ", ". ", " .")),
        ("[KEY]", r'"\""', " . "),
    ],
)
def test_long_dotted_keys(form, part, dot):
    longest = dot.join([part] * MAX_KEY_PARTS)
    assert parse(dotted_key(form, longest)).values
    with pytest.raises(Unreadable, match="more than 100 dotted parts"):
        parse(dotted_key(form, longest + dot + part))


@each(
    "text",
    [
        f"# {'.' * 300}",
        f"x = '{'.' * 300}'",
        f"x = '{'1.2.' * 100}'",
        f"'{'a.' * 200}' = 1",
        f"x = [{'0.1, ' * 300}]",
    ],
)
def test_dots_elsewhere_are_no_long_key(text):
    assert parse(text.encode()).text == text


@pytest.mark.parametrize("size", [5000, MAX_BYTES - 10])
def test_invalid_utf_8_at_the_end_of_one_long_line(size):
    assert refused(b"#" * size + b"\xff").position == Position(1, size + 1)
