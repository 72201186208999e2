"""Write values of keys into a config's text; every other byte stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp8tune.formats.document import ConfigDocument, Path
from fp8tune.formats.edits import CannotEdit, apply
from fp8tune.trainers.trainer import Trainer


def rewritten(document: ConfigDocument, keys: Mapping[str, Any]) -> str:
    """Return the text with other values of keys; ``None`` removes a key.

    Raises ``CannotEdit`` for a layout that edits do not cover, and ``InvalidText``.
    """
    values: dict[Path, Any] = {}
    removed: list[Path] = []
    for key, value in sorted(keys.items()):
        place = tuple(key.split("."))
        if value is not None:
            values[place] = value
        elif place in document.spans.values:
            removed.append(place)
    if removed:  # before others are added, which may be where one of these stands
        edits = [document.remove_key(place) for place in removed]
        document = document.read(apply(document.text, edits))
    return apply(document.text, document.set_values(values))


def with_keys(
    known: Trainer, document: ConfigDocument, keys: Mapping[str, Any]
) -> ConfigDocument:
    """Return a config with other values of keys; ``None`` removes a key.

    The trainer then reads these values, and all others as before. Raises ``CannotEdit``
    if the layout does not allow it, and ``InvalidText``.
    """
    before = known.load(document.values).values
    changed = document.read(rewritten(document, keys))
    after = known.load(changed.values)
    for key, value in {**before, **keys}.items():
        removed = key in keys and value is None
        right = key not in after.written if removed else after.values.get(key) == value
        if not right:
            raise CannotEdit(f"`{key}` cannot be set in this layout")
    return changed
