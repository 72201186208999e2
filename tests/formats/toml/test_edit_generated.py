"""Edits of generated documents: the values change as asked, and nothing else."""

import copy
import tomllib

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from fp8tune.formats.edits import CannotEdit, Edit, apply, in_order
from fp8tune.formats.toml.document import Document, comments, parse
from fp8tune.formats.toml.edit import move_key, remove_key, rename_key, set_values
from tests.formats.toml.values import canonical, walk, without_empty
from tests.formats.toml.writer import documents, scalars

SLOWLY = settings(
    max_examples=100,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking takes minutes
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


def at(values, path):
    for part in path:
        values = values[part]
    return values


def keys_of(values):
    return [path for path, _ in walk(values) if isinstance(path[-1], str)]


def tables_of(values):
    return [(), *(path for path, value in walk(values) if isinstance(value, dict))]


def tried(text, edit, *arguments):
    """The values after an edit, unless it is refused, or TOML does not allow it."""
    document = parse(text.encode())
    try:
        made = edit(document, *arguments)
        edits = in_order([made] if isinstance(made, Edit) else made)
        after = apply(document.text, edits)
        values = tomllib.loads(after)
    except (CannotEdit, tomllib.TOMLDecodeError):
        assume(False)
    check_the_rest(document, edits, after)
    return values


def check_the_rest(document: Document, edits, after):
    """Outside the edits every byte stays, and so does every comment."""
    shift = end = 0
    for edit in edits:
        assert (
            after[end + shift : edit.start + shift] == (document.text[end : edit.start])
        )
        shift += len(edit.text) - (edit.end - edit.start)
        end = edit.end
    assert after[end + shift :] == document.text[end:]
    outside = [
        document.text[start:stop]
        for start, stop in comments(document.text)
        if not any(edit.start <= start < edit.end for edit in edits)
    ]
    left = [after[slice(*span)] for span in comments(after)]
    assert all(left.count(comment) >= outside.count(comment) for comment in outside)


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
    said = tried(text, lambda document: set_values(document, {path: value}))
    assert canonical(said) == canonical(expected)


@SLOWLY
@given(documents(), NAMES, st.data())
def test_a_key_that_is_added_is_the_only_change(generated, name, data):
    text, values = generated
    table = data.draw(st.sampled_from(tables_of(values)))
    assume(name not in at(values, table))
    expected = copy.deepcopy(values)
    at(expected, table)[name] = 7
    said = tried(text, lambda document: set_values(document, {(*table, name): 7}))
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
    assert canonical(tried(text, rename_key, path, name)) == canonical(expected)


@SLOWLY
@given(documents(), st.data())
def test_a_key_that_is_removed_is_the_only_change(generated, data):
    text, values = generated
    assume(keys_of(values))
    path = data.draw(st.sampled_from(keys_of(values)))
    expected = copy.deepcopy(values)
    del at(expected, path[:-1])[path[-1]]
    said = without_empty(tried(text, remove_key, path))
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
    said = without_empty(tried(text, move_key, path, (*table, name)))
    assert canonical(said) == canonical(without_empty(expected))
