"""What tests of edits in generated documents do alike in every format."""

import copy

from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st

from fp8tune.formats.edits import CannotEdit, Edit, apply, in_order
from tests.formats.toml.values import walk

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


KINDS = ("set", "add", "rename", "remove", "move")


@st.composite
def edits(draw, kind, values, names, scalars):
    """The name of an edit and its arguments, and the values that it leaves."""
    expected = copy.deepcopy(values)
    name, value = draw(names), draw(scalars)
    table = draw(st.sampled_from(tables_of(values)))
    if kind == "add":
        assume(name not in at(values, table))
        at(expected, table)[name] = value
        return "set_values", ({(*table, name): value},), expected
    paths = dict(walk(values)) if kind == "set" else keys_of(values)
    assume(paths)
    path = draw(st.sampled_from(list(paths)))
    place = at(expected, path[:-1])
    if kind == "set":
        place[path[-1]] = value
        return "set_values", ({path: value},), expected
    old = place.pop(path[-1])
    if kind == "rename":
        place[name] = old
        return "rename_key", (path, name), expected
    if kind == "remove":
        return "remove_key", (path,), expected
    assume(table[: len(path)] != path and name not in at(values, table))
    at(expected, table)[name] = old
    return "move_key", (path, (*table, name)), expected


def edited(document, name, *arguments):
    """The edits and the text after them, unless one is refused; other bytes stay."""
    try:
        made = getattr(document, name)(*arguments)
        edits = in_order([made] if isinstance(made, Edit) else made)
        after = apply(document.text, edits)
    except CannotEdit:
        assume(False)
    shift = end = 0
    for edit in edits:
        between = after[end + shift : edit.start + shift]
        assert between == document.text[end : edit.start]
        shift += len(edit.text) - (edit.end - edit.start)
        end = edit.end
    assert after[end + shift :] == document.text[end:]
    return edits, after
