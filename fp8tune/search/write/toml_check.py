"""Check by tomlkit that a tuned TOML config differs in the chosen keys alone."""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.formats.document import ConfigDocument
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.values import find

Names = tuple[str, ...]


def check_others(
    before: ConfigDocument, after: ConfigDocument, paths: Sequence[Names]
) -> None:
    """Raise ``CannotEdit`` unless all but these keys is as it was, comments included.

    New tables are at the end.
    """
    old, new = _others(before, paths), _others(after, paths)
    if old != new[: len(old)] or _comments(before) != _comments(after):
        keys = ", ".join(map(".".join, paths))
        raise CannotEdit(
            f"{keys}: this cannot be written without changing other parts of the file; "
            "set it in a table of its own, such as [train]"
        )


def _others(document: ConfigDocument, paths: Sequence[Names]) -> list[str]:
    """Return the words of a config without these keys and without comments."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    comments = [Edit(*span, "") for span in document.comments()]
    try:
        config = tomlkit.parse(apply(document.text, comments))
        for *tables, name in paths:
            table = find(config, tuple(tables))
            if isinstance(table, dict):
                table.pop(name, None)
        return config.as_string().split()
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(f"tomlkit cannot read this file: {error}") from None


def _comments(document: ConfigDocument) -> list[str]:
    return [document.text[slice(*span)].rstrip() for span in document.comments()]
