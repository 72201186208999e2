"""The span scanner against tomllib: each span parses to what stands there."""

import re
import tomllib

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
