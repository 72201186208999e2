"""Positions in a text: lines, columns, spans of keys and values."""

from fp8tune.formats.document import Lines, Position
from fp8tune.formats.toml.document import parse
from tests.each import each


@each(
    ("text", "offset", "position"),
    [
        ("ab", 2, (1, 3)),
        ("a\nb", 2, (2, 1)),
        ("a\nb\n", 4, (3, 1)),
        ("a\r\nb", 2, (1, 3)),
        ("a\r\nb", 3, (2, 1)),
        ("ä😀b", 2, (1, 3)),
        ("a\u2028b\x85c", 4, (1, 5)),
    ],
)
def test_position(text, offset, position):
    assert Lines(text).position(offset) == Position(*position)


def test_span_of_keys_and_values():
    document = parse(b"[a]\nb = 1\nc = [2]\n[[d]]\n")
    spans = {
        (path, part): document.span(path, part)
        for path in [("a",), ("a", "b"), ("a", "c", 0), ("d", 0), ("x",), ()]
        for part in ("key", "value")
    }
    assert spans == {
        (("a",), "key"): (1, 2),
        (("a",), "value"): (1, 2),
        (("a", "b"), "key"): (4, 5),
        (("a", "b"), "value"): (8, 9),
        (("a", "c", 0), "key"): None,
        (("a", "c", 0), "value"): (15, 16),
        (("d", 0), "key"): (20, 21),
        (("d", 0), "value"): (20, 21),
        (("x",), "key"): None,
        (("x",), "value"): None,
        ((), "key"): None,
        ((), "value"): None,
    }
