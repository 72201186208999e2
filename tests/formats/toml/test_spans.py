"""The span scanner against tomllib: each span parses to what stands there."""

import re
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings

from fp8tune.formats.toml.spans import scan
from tests.each import each
from tests.formats.toml.corpus import VALID
from tests.formats.toml.values import canonical, walk
from tests.formats.toml.writer import documents

EXAMPLES = settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def unquoted(key):
    return tomllib.loads(f"x = {key}")["x"] if key[0] in "\"'" else key


def prove(text):
    """Hold the scanner to its promise for one valid text."""
    found = dict(walk(tomllib.loads(text)))
    spans = scan(text)
    parsed = {
        path: canonical(tomllib.loads(f"x = {text[start:end]}")["x"])
        for path, (start, end) in spans.values.items()
    }
    assert parsed == {path: canonical(found[path]) for path in parsed}
    leaves = {path for path, value in found.items() if not isinstance(value, dict)}
    assert {path for path in leaves if not is_tables(found[path])} <= parsed.keys()
    names = {path: unquoted(text[slice(*span)]) for path, span in spans.keys.items()}
    assert names == {path: last_name(path) for path in names}
    assert names.keys() <= found.keys()
    assert {path for path in found if isinstance(path[-1], str)} <= names.keys()
    assert found.keys() == parsed.keys() | names.keys()
    follow(text, spans)


def follow(text, spans):
    """What stands between keys and values, and after the last key of a header."""
    for path, (start, end) in spans.values.items():
        if isinstance(path[-1], str):
            assert re.fullmatch(r"[ \t]*=[ \t]*", text[spans.keys[path][1] : start])
        assert text[start:end] == text[start:end].strip(" \t\r\n,")
    for path in spans.keys:
        if isinstance(path[-1], int):
            assert re.match(r"[ \t]*(?:\]\]|\.)", text[spans.keys[path][1] :])


def is_tables(value):
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def last_name(path):
    return next(part for part in reversed(path) if isinstance(part, str))


@each("text", VALID.values(), ids=VALID)
def test_corpus(text):
    prove(text)


@each("text", VALID.values(), ids=VALID)
def test_corpus_with_other_line_ends(text):
    prove(re.sub(r"\r?\n", "\r\n", text))
    prove(text.replace("\r\n", "\n"))


@each("text", VALID.values(), ids=VALID)
def test_corpus_after_a_comment_and_before_a_table(text):
    prove(f"# '''\n{text}")
    prove(f"{text}\n[last.'t.u']\nv = [1]")


@EXAMPLES
@given(documents())
def test_generated_documents(document):
    text, value = document
    assert canonical(tomllib.loads(text)) == canonical(value)
    prove(text)
    prove(text.replace("\n", "\r\n"))


@each(
    ("text", "keys", "values"),
    [
        ("", {}, {}),
        ("# a = 1", {}, {}),
        ("a = 1", {("a",): (0, 1)}, {("a",): (4, 5)}),
        (
            "a.a.a = 1",
            {("a",): (0, 1), ("a", "a"): (2, 3), ("a", "a", "a"): (4, 5)},
            {("a", "a", "a"): (8, 9)},
        ),
        (
            "a.b = 1\na.c = 2",
            {("a",): (0, 1), ("a", "b"): (2, 3), ("a", "c"): (10, 11)},
            {("a", "b"): (6, 7), ("a", "c"): (14, 15)},
        ),
        (
            "[ a . 'b' ] # x\n\"c d\" = [1, [2]]",
            {("a",): (2, 3), ("a", "b"): (6, 9), ("a", "b", "c d"): (16, 21)},
            {
                ("a", "b", "c d"): (24, 32),
                ("a", "b", "c d", 0): (25, 26),
                ("a", "b", "c d", 1): (28, 31),
                ("a", "b", "c d", 1, 0): (29, 30),
            },
        ),
        (
            "a = {b.c = {}, d = 2}",
            {
                ("a",): (0, 1),
                ("a", "b"): (5, 6),
                ("a", "b", "c"): (7, 8),
                ("a", "d"): (15, 16),
            },
            {("a",): (4, 21), ("a", "b", "c"): (11, 13), ("a", "d"): (19, 20)},
        ),
        (
            "[a.b]\n[a]",
            {("a",): (7, 8), ("a", "b"): (3, 4)},
            {},
        ),
        (
            "[[a]]\n[[a]]\nb = 1\n[a.c]",
            {
                ("a",): (2, 3),
                ("a", 0): (2, 3),
                ("a", 1): (8, 9),
                ("a", 1, "b"): (12, 13),
                ("a", 1, "c"): (21, 22),
            },
            {("a", 1, "b"): (16, 17)},
        ),
        (
            "a = '''\nx''' # y\r\nb = 1979-05-27 07:32:00 # z",
            {("a",): (0, 1), ("b",): (18, 19)},
            {("a",): (4, 12), ("b",): (22, 41)},
        ),
    ],
)
def test_exact_spans(text, keys, values):
    assert scan(text)[:2] == (keys, values)


@pytest.mark.parametrize("value", ["[[1], 2]", "{a = {b = 1}}", "'''\nx\n'''", "1"])
def test_a_span_ends_with_its_value(value):
    (span,) = (scan(f"x = {value} # end").values[path] for path in [("x",)])
    assert span == (4, 4 + len(value))
