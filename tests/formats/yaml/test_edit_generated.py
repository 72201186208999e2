"""Edits of generated documents: the values change as asked, and nothing else."""

import copy

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from fp8tune.formats.yaml.document import parse
from tests.formats.generated import KINDS, SLOWLY, at, edited, edits
from tests.formats.toml.values import walk
from tests.formats.yaml.writer import documents

NAMES = st.sampled_from(["zz", "a", "b", "on", "x y", "1"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=8),
    st.sampled_from(
        ["5e-5", "yes", "012", "a: b", "# x", "- a", "12:30", "2026-01-01"]
    ),
    st.lists(st.one_of(st.integers(), st.text("ab,]# '\"", max_size=4)), max_size=3),
)


def loaded(text):
    """What the trainer reads, where keys are strings as ours are."""
    values = yaml.safe_load(text)
    assume(all(isinstance(key, (str, int)) for path, _ in walk(values) for key in path))
    return copy.deepcopy(yaml.safe_load(yaml.dump(values, Dumper=_NoAliases)))


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def tried(text, name, *arguments):
    """The values after an edit, unless it is refused; no comment is lost."""
    document = parse(text.encode())
    _, after = edited(document, name, *arguments)
    before = [document.text[slice(*span)] for span in document.comments()]
    left = [after[slice(*span)] for span in parse(after.encode()).comments()]
    assert sorted(left) == sorted(before)
    return yaml.safe_load(after)


@SLOWLY
@given(documents())
def test_values_are_those_of_safe_load(text):
    document = parse(text.encode())
    assert document.values == yaml.safe_load(text)
    spans = document.spans
    for path, span in spans.keys.items():
        assert yaml.safe_load(text[slice(*span)]) == path[-1]
    scalars = (p for p, v in walk(document.values) if not isinstance(v, (dict, list)))
    for path in scalars:
        written = text[slice(*spans.values[path])]
        if written[:1] not in ("|", ">"):
            assert yaml.safe_load(written) == at(document.values, path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "add"])
@SLOWLY
@given(documents(), st.data())
def test_an_edit_is_the_only_change(kind, text, data):
    drawn = edits(kind, loaded(text), NAMES, VALUES)
    name, arguments, expected = data.draw(drawn)
    assert tried(text, name, *arguments) == expected


@SLOWLY
@given(documents(), NAMES, VALUES, st.data())
def test_a_key_that_is_added_is_the_only_change(text, name, value, data):
    expected = loaded(text)
    tables = [(), *(p for p, v in walk(expected) if isinstance(v, dict) or v is None)]
    table = data.draw(st.sampled_from(tables))
    path = (*table, *data.draw(st.sampled_from([(), ("new",)])), name)
    place = expected
    for part in path[:-1]:
        if isinstance(place, dict) and place.get(part) is None:
            place[part] = {}
        place = place[part]
        assume(isinstance(place, (dict, list)))
    assume(isinstance(place, dict) and name not in place)
    place[name] = value
    said = tried(text, "set_values", {path: value})
    assert said == expected
