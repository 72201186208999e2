"""Write values of keys into a config's text; every other byte stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp8tune.formats import parse
from fp8tune.formats.document import ConfigDocument, OneFile, Path
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.trainers.trainer import Trainer


def rewritten(document: ConfigDocument, keys: Mapping[str, Any]) -> str:
    """Return the text with other values of keys; ``None`` removes a key, or a table.

    Raises ``CannotEdit`` for a layout that edits do not cover, and ``InvalidText``.
    """
    values: dict[Path, Any] = {}
    for key, value in sorted(keys.items()):
        place = tuple(key.split("."))
        if value is not None:
            values[place] = value
        else:  # before others are added, which may be where this one stands
            document = _without(document, place)
    return apply(document.text, document.set_values(values))


def _without(document: ConfigDocument, place: Path) -> ConfigDocument:
    """Return the document without a key, or without a table and all that is in it."""
    while place in document.spans.keys:
        edit = _removal(document, place)
        document = document.read(apply(document.text, [edit]))
    return document


def _removal(document: ConfigDocument, place: Path) -> Edit:
    """Return the edit that removes a key; of a table in TOML its innermost part."""
    values = document.spans.values
    if place in values:
        return document.remove_key(place)
    if isinstance(document, OneFile) and document.format == "yaml":
        return document.remove_table(place)
    inside = (path for path in document.spans.keys if path[: len(place)] == place)
    removable = (path for path in inside if path[:-1] not in values)
    return document.remove_key(max(removable, key=len))


def with_keys(known: Trainer, path: str, data: bytes, keys: Mapping[str, Any]) -> bytes:
    """Return a config's bytes with other values of keys; ``None`` removes a key.

    Of a table it removes all keys. The trainer then reads these values, and all others
    as before. Raises ``CannotEdit`` if the layout does not allow it, and
    ``InvalidText``.
    """
    document = parse(data, path)
    document.read_as(known.about.reads)
    before = known.load(document.values).values
    text = rewritten(document, keys)
    after = known.load(document.read(text).values)
    gone = tuple(f"{key}." for key, value in keys.items() if value is None)
    kept = {key: v for key, v in before.items() if not key.startswith(gone)}
    for key, value in {**kept, **keys}.items():
        removed = key in keys and value is None
        right = key not in after.written if removed else after.values.get(key) == value
        if not right:
            raise CannotEdit(f"`{key}` cannot be set in this layout")
    return f"{chr(0xFEFF) * document.bom}{text}".encode()
