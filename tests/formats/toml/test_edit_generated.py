"""Edits of generated documents: the values change as asked, and nothing else."""

import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fp8tune.formats.toml.document import comments, parse
from tests.formats.generated import KINDS, SLOWLY, edited, edits
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


@pytest.mark.parametrize("kind", KINDS)
@SLOWLY
@given(documents(), st.data())
def test_an_edit_is_the_only_change(kind, generated, data):
    text, values = generated
    name, arguments, expected = data.draw(edits(kind, values, NAMES, scalars))
    said = tried(text, name, *arguments)
    if kind in ("remove", "move"):  # a table without keys may go
        said, expected = without_empty(said), without_empty(expected)
    assert canonical(said) == canonical(expected)
