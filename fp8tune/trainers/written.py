"""Write values of keys into a config's text; every other byte stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fp8tune.formats.document import ConfigDocument, OneFile, Path
from fp8tune.formats.edits import CannotEdit, apply
from fp8tune.formats.joined import Joined
from fp8tune.trainers.trainer import Trainer

OF_FLAGS = ("unknown", "maybe")
"""What a script says of single flags: it changes where one is removed."""


def rewritten(document: ConfigDocument, keys: Mapping[str, Any]) -> str:
    """Return the text with other values of keys; ``None`` removes a key, or a table.

    Raises ``CannotEdit``, with the key, for a layout that edits do not cover.
    """
    values: dict[Path, Any] = {}
    for key, value in sorted(keys.items()):
        place = tuple(key.split("."))
        if value is not None:
            values[place] = value
        if value is None or _is_hidden(document, place):
            # before others are added, which may be where this one stands
            with _naming(key):
                document = _without(document, place)
    try:
        return apply(document.text, document.set_values(values))
    except CannotEdit:
        for path, value in values.items():
            with _naming(".".join(map(str, path))):
                list(document.set_values({path: value}))
        raise


def _is_hidden(document: ConfigDocument, place: Path) -> bool:
    """Return whether a flag of a script has a value that is not written behind it."""
    is_switch = document.values.get(str(place[0])) is True
    return document.format == "bash" and not (
        is_switch or place in document.spans.values
    )


@contextmanager
def _naming(key: str) -> Iterator[None]:
    try:
        yield
    except CannotEdit as error:
        raise CannotEdit(f"`{key}`: {error}") from None


def _without(document: ConfigDocument, place: Path) -> ConfigDocument:
    """Return the document without a key, or without a table and all that is in it."""
    while place in document.spans.keys:
        if place in document.spans.values or document.format == "bash":
            edits = [document.remove_key(place)]
        else:
            assert isinstance(document, OneFile | Joined)
            edits = [*document.remove_table(place)]
        document = document.read(apply(document.text, edits))
    return document


def with_keys(
    known: Trainer, document: ConfigDocument, keys: Mapping[str, Any]
) -> ConfigDocument:
    """Return a config with other values of keys; ``None`` removes a key.

    Of a table it removes all keys. The trainer then reads these values, and all others
    as before. Raises ``CannotEdit`` if the layout does not allow it, and
    ``InvalidText``.
    """
    before = known.load(document.values).values
    changed = document.read(rewritten(document, keys))
    after = known.load(changed.values)
    gone = tuple(f"{key}." for key, value in keys.items() if value is None)
    kept = {
        key: value
        for key, value in before.items()
        if not key.startswith(gone) and key not in OF_FLAGS
    }
    for key, value in {**kept, **keys}.items():
        removed = key in keys and value is None
        right = key not in after.written if removed else after.values.get(key) == value
        if not right:
            raise CannotEdit(f"`{key}`: not in this layout")
    return changed
