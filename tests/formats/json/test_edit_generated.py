"""Edits of generated documents: the values change as asked, and nothing else."""

import copy
import json

from hypothesis import assume, given
from hypothesis import strategies as st

from fp8tune.formats.json.document import parse
from tests.formats.generated import SLOWLY, at, edited, keys_of, tables_of
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


def check(text, expected, name, *arguments):
    """Do an edit, unless it is refused: the values are these, all other bytes stay."""
    _, after = edited(parse(text.encode()), name, *arguments)
    assert canonical(parse(after.encode()).values) == canonical(expected)
    assert not is_json(text) or is_json(after)
    for remark in ("# a remark", "// other", "// c"):
        assert after.count(remark) == text.count(remark)


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


@SLOWLY
@given(documents(), SCALARS, st.data())
def test_a_value_that_is_set_is_the_only_change(generated, value, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    expected = copy.deepcopy(values)
    at(expected, path[:-1])[path[-1]] = value
    check(text, expected, "set_values", {path: value})


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_key_that_is_added_is_the_only_change(generated, name, data):
    text, values = generated
    table = data.draw(st.sampled_from(tables_of(values)))
    assume(name not in at(values, table))
    expected = copy.deepcopy(values)
    at(expected, table)[name] = 7
    check(text, expected, "set_values", {(*table, name): 7})


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_name_that_is_given_is_the_only_change(generated, name, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    expected = copy.deepcopy(values)
    table = at(expected, path[:-1])
    table[name] = table.pop(path[-1])
    check(text, expected, "rename_key", path, name)


@SLOWLY
@given(documents(), st.data())
def test_a_key_that_is_removed_is_the_only_change(generated, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    expected = copy.deepcopy(values)
    del at(expected, path[:-1])[path[-1]]
    check(text, expected, "remove_key", path)


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_key_that_is_moved_is_the_only_change(generated, name, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    table = data.draw(st.sampled_from(tables_of(values)))
    assume(table[: len(path)] != path and name not in at(values, table))
    expected = copy.deepcopy(values)
    value = at(expected, path[:-1]).pop(path[-1])
    at(expected, table)[name] = value
    check(text, expected, "move_key", path, (*table, name))
