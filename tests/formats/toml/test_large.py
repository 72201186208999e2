"""Deep and large input: it comes back, and can be scanned."""

import pytest

from fp8tune.formats.document import MAX_BYTES, Unreadable
from fp8tune.formats.toml.document import InvalidToml, parse
from tests.each import each
from tests.formats.toml.clock import soon
from tests.formats.toml.corpus import DIGITS


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ("{a = ", "}"), ("[{a = ", "}]")]
)
def test_what_parses_can_be_scanned(opening, closing):
    """Up to the very depth at which the parser gives up."""
    depths = []
    for depth in range(50, 1000):
        text = f"[t]\na.b = {opening * depth}1{closing * depth}"
        try:
            document = parse(text.encode())
        except InvalidToml:
            break
        assert ("t", "a", "b") in document.spans.values, depth
        depths.append(depth)
    assert depths


def large(start, piece, end, size=MAX_BYTES):
    """``piece`` over and over, up to a size; ``%d`` in it counts."""
    room = size - len(start) - len(end)
    if "%d" in piece:
        count = room // (len(piece) + 4)
        return start + "".join(piece % number for number in range(count)) + end
    return start + piece * (room // len(piece.encode())) + end


LARGE = {
    "comment": ("", "#", ""),
    "escapes": ('a = "', r"\u0041", '"'),
    "backslashes": ('a = "', r"\\", '"'),
    "bare-key": ("k", "k", " = 1"),
    "quoted-key": ("'", "k.", "' = 1"),
    "array-of-comments": ("a = [", "#[\n", "]"),
    "spaces": ("", " ", ""),
    "spaces-below-many-dots": (f"# {'.' * 200}\n", " ", ""),
    "spaces-before-a-value": (f"# {'.' * 200}\na =", " ", "1"),
    "carriage-returns": ("", "\r", ""),
    "quoted-quotes": ("", "'\"'\"", ""),
    "open-long-literal": ("a = '''", "''\n", ""),
    "parts": ("", "a.", ""),
    "parts-of-a-key": ("a", ".a", " = 1"),
    "escaped-quote-parts-of-a-key": ("a", r'."\""', " = 1"),
    "escaped-quote-parts-of-a-header": ("[a", r'."\""', "]"),
    "empty-parts": ("''", '.""', " = 1"),
    "quotes-and-dots": ("", '."', ""),
    "both-quotes-and-dots": ("", ".'\"", ""),
    "brackets": ("", "[", ""),
    "nested-arrays": ("a = ", "[", ""),
    "closing-brackets": ("", "]", ""),
    "equals": ("", "=", ""),
    "digits": ("a = ", "1", ""),
    "digits-with-underscores": ("a = ", "1_", "1"),
    "numbers-of-4000-digits": ("a = [", f"{'1' * 4000},", "]"),
    "numbers-before-a-long-one": ("a = [", f"{'1' * 3999},", f"]\nb = {DIGITS}"),
    "nul": ("", "\0", ""),
    "wide": ("# ", "😀", ""),
}

MANY = {
    "array": ("a = [", "1,", "]"),
    "array-of-strings": ("a = [", "'',\"'\",", "]"),
    "inline-table": ("a = {", "k%d = 1,", "k = 1}"),
    "tables-with-keys": ("", "[t%d]\na = 1\nb = 'x'\n", ""),
    "arrays-of-tables": ("", "[[a]]\n[[a.b]]\n", ""),
    "keys": ("", "k%d = 1\n", ""),
    "keys-of-99-parts": ("", f"{'a.' * 98}k%d = 1\n", ""),
    "headers-of-99-parts": ("", f"[{'a.' * 98}k%d]\n", ""),
}
"""Many keys, tables or items: a quarter of the limit takes a second at most."""


SHAPES = [(shape, MAX_BYTES) for shape in LARGE.values()]
SHAPES += [(shape, MAX_BYTES // 4) for shape in MANY.values()]


@each(("shape", "size"), SHAPES, ids=[*LARGE, *MANY])
def test_large_input_comes_back(shape, size):
    data = large(*shape, size).encode()
    assert size // 2 < len(data) <= size
    with soon():
        try:
            document = parse(data)
        except (InvalidToml, Unreadable):
            return
        names = {path[0] for path in document.spans.keys}
    assert names == set(document.values)
