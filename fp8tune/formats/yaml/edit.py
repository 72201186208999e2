"""Edit a YAML text: every byte outside an edit stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fp8tune.formats.document import Path
from fp8tune.formats.edits import CannotEdit, Edit

if TYPE_CHECKING:
    from fp8tune.formats.yaml.document import Document


def set_values(document: Document, values: Mapping[Path, Any]) -> Iterator[Edit]:
    """Set keys: replace their values, or add them to their tables."""
    raise CannotEdit("not yet")


def rename_key(document: Document, path: Path, name: str) -> Iterator[Edit]:
    """Give a key another name wherever it is named."""
    raise CannotEdit("not yet")


def remove_key(document: Document, path: Path) -> Edit:
    """Remove a key with its value, or an empty table, with its line."""
    raise CannotEdit("not yet")


def move_key(document: Document, path: Path, to: Path) -> Iterator[Edit]:
    """Move a key with its comments to another place."""
    raise CannotEdit("not yet")
