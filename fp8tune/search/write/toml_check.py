"""Check by tomlkit that a tuned TOML config differs in the chosen keys alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fp8tune.formats.document import ConfigDocument
from fp8tune.formats.edits import CannotEdit

Names = tuple[str, ...]


def check_others(
    before: ConfigDocument, after: ConfigDocument, paths: Sequence[Names]
) -> None:
    """Raise ``CannotEdit`` if another value is written otherwise, or a comment."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        old, new = (
            {
                place: tomlkit.item(value).as_string().strip()
                for place, value in _values(tomlkit.parse(document.text), ())
                if not any(place[: len(path)] == path for path in paths)
            }
            for document in (before, after)
        )
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(f"tomlkit cannot read this file: {error}") from None
    if old != new or _comments(before) != _comments(after):
        keys = ", ".join(map(".".join, paths))
        raise CannotEdit(
            f"{keys}: this cannot be written without changing other parts of the file; "
            "set it in a table of its own, such as [train]"
        )


def _values(table: Any, path: Names) -> Iterator[tuple[Names, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _values(value, (*path, name))
        else:
            yield (*path, name), value


def _comments(document: ConfigDocument) -> list[str]:
    return [document.text[slice(*span)].rstrip() for span in document.comments()]
