"""What tests of edits in generated documents do alike in every format."""

from hypothesis import HealthCheck, Phase, assume, settings

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
