"""Edits of generated documents: the values change as asked, and nothing else."""

import copy
import tomllib

from hypothesis import assume, given
from hypothesis import strategies as st

from fp8tune.formats.toml.document import comments, parse
from tests.formats.generated import SLOWLY, at, edited, keys_of, tables_of
from tests.formats.toml.values import canonical, without_empty
from tests.formats.toml.writer import documents, scalars


def tried(text, name, *arguments):
    """The values after an edit, unless it is refused, or TOML does not allow it.

    Every comment outside of the edits stays.
    """
    document = parse(text.encode())
    edits, after = edited(document, name, *arguments)
    try:
        values = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        assume(False)
    outside = [
        document.text[start:stop]
        for start, stop in comments(document.text)
        if not any(edit.start <= start < edit.end for edit in edits)
    ]
    left = [after[slice(*span)] for span in comments(after)]
    assert all(left.count(comment) >= outside.count(comment) for comment in outside)
    return values


NAMES = st.sampled_from(["zz", "a", "b", "ä ö", "x.y"])


@SLOWLY
@given(documents(), st.data())
def test_a_value_that_is_set_is_the_only_change(generated, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    value = data.draw(scalars)
    expected = copy.deepcopy(values)
    at(expected, path[:-1])[path[-1]] = value
    said = tried(text, "set_values", {path: value})
    assert canonical(said) == canonical(expected)


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_key_that_is_added_is_the_only_change(generated, name, data):
    text, values = generated
    table = data.draw(st.sampled_from(tables_of(values)))
    assume(name not in at(values, table))
    expected = copy.deepcopy(values)
    at(expected, table)[name] = 7
    said = tried(text, "set_values", {(*table, name): 7})
    assert canonical(said) == canonical(expected)


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_name_that_is_given_is_the_only_change(generated, name, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    expected = copy.deepcopy(values)
    table = at(expected, path[:-1])
    table[name] = table.pop(path[-1])
    assert canonical(tried(text, "rename_key", path, name)) == canonical(expected)


@SLOWLY
@given(documents(), st.data())
def test_a_key_that_is_removed_is_the_only_change(generated, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    expected = copy.deepcopy(values)
    del at(expected, path[:-1])[path[-1]]
    said = without_empty(tried(text, "remove_key", path))
    assert canonical(said) == canonical(without_empty(expected))


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_key_that_is_moved_is_the_only_change(generated, name, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    table = data.draw(st.sampled_from(tables_of(values)))
    assume(table[: len(path)] != path)
    expected = copy.deepcopy(values)
    value = at(expected, path[:-1]).pop(path[-1])
    at(expected, table)[name] = value
    said = without_empty(tried(text, "move_key", path, (*table, name)))
    assert canonical(said) == canonical(without_empty(expected))
