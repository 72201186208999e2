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
    """Raise ``CannotEdit`` unless all other values and all comments are as they were."""
    old, new = dict(_values(before)), dict(_values(after))
    for path in paths:
        old.pop(path, None)
        new.pop(path, None)
    if old != new or _comments(before) != _comments(after):
        keys = ", ".join(map(".".join, paths))
        raise CannotEdit(
            f"{keys}: this cannot be written without changing other parts of the file; "
            "set it in a table of its own, such as [train]"
        )


def _values(document: ConfigDocument) -> Iterator[tuple[Names, str]]:
    """Yield each key with its value as it is written."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        yield from _below(tomlkit.parse(document.text), ())
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(f"tomlkit cannot read this file: {error}") from None


def _below(table: Any, path: Names) -> Iterator[tuple[Names, str]]:
    import tomlkit

    for name, item in table.items():
        if isinstance(item, dict):
            yield from _below(item, (*path, name))
        else:
            yield (*path, name), tomlkit.item(item).as_string().strip()


def _comments(document: ConfigDocument) -> list[str]:
    return [document.text[slice(*span)].rstrip() for span in document.comments()]
