"""Edits of generated documents: the values change as asked, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp8tune.formats.json.document import parse
from tests.formats.generated import KINDS, SLOWLY, edited, edits
from tests.formats.toml.values import walk

NAMES = st.sampled_from(["a", "b", "zz", "x y", "é", "c.d"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 10**12),
    st.sampled_from([0.5, 5e-5, "x", "auto", ""]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)
LAYOUTS = st.sampled_from([None, 2, 4, "\t"])
REMARKS = st.sampled_from(["", "", "# a remark\n", "// other\n"])
"""What may stand above the text and behind its lines."""


@st.composite
def documents(draw):
    """Return a text and its values, in some layout, maybe with comments and commas."""
    values = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    text = json.dumps(values, indent=draw(LAYOUTS), ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    if draw(st.booleans()):
        text = text.replace(",\n", ", // c\n", 1)
    return draw(REMARKS) + text + draw(st.sampled_from(["", "\n"])), values


def canonical(values):
    return json.dumps(values, sort_keys=True)


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@SLOWLY
@given(documents())
def test_places_hold_what_is_read(generated):
    text, values = generated
    document = parse(text.encode())
    assert canonical(document.values) == canonical(values)
    for path, inner in walk(values):
        written = text[slice(*document.spans.values[path])]
        if not isinstance(inner, (dict, list)):
            assert json.loads(written) == inner
        if isinstance(path[-1], str):
            assert json.loads(text[slice(*document.spans.keys[path])]) == path[-1]


@pytest.mark.parametrize("kind", KINDS)
@SLOWLY
@given(documents(), st.data())
def test_an_edit_is_the_only_change(kind, generated, data):
    text, values = generated
    name, arguments, expected = data.draw(edits(kind, values, NAMES, SCALARS))
    _, after = edited(parse(text.encode()), name, *arguments)
    assert canonical(parse(after.encode()).values) == canonical(expected)
    assert not is_json(text) or is_json(after)
    for remark in ("# a remark", "// other", "// c"):
        assert after.count(remark) == text.count(remark)
