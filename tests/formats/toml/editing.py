"""One edit of a text, and what the values are then."""

import tomllib

from fp8tune.formats.edits import Edit, apply
from fp8tune.formats.toml.document import parse


def path_of(dotted):
    parts = dotted.split(".") if dotted else []
    return tuple(int(part) if part.isdigit() else part for part in parts)


def edited(text, edit, *arguments):
    """The text after an edit, and its values, which must be there."""
    document = parse(text.encode())
    made = getattr(document, edit)(*arguments)
    after = apply(document.text, [made] if isinstance(made, Edit) else made)
    return after, tomllib.loads(after)
