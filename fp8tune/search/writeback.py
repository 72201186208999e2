"""Write the chosen values into the user's config, each with its reason above it.

Only the changed values and these comments differ from the file; those of an earlier
search give way, because their figures are of values that the file no longer has. The
text is edited in place by ``toml.edit``, as fixes are, because a parser that writes
documents anew cannot put a comment above a key.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any, NamedTuple

from fp8tune.lint.wording import plain
from fp8tune.toml import Path
from fp8tune.toml.document import Document, comments, parse
from fp8tune.toml.edit import Edit, apply, set_values
from fp8tune.toml.literal import CannotEdit

MARK = "# fp8tune search: "
MEASURED = "fp8tune search measured"
"""How the reason of an ignore comment begins that a search has written."""
WIDTH = 100
"""Longest line of a comment [characters]."""
LONGEST = 1000
"""Most of a reason that is written [characters]; records are not ours."""


class Choice(NamedTuple):
    """A key, its new value, and why: sentences that become comment lines."""

    key: str
    value: Any
    reasons: tuple[str, ...]


class CannotWrite(Exception):
    """A value cannot be put into this file: names the key and why."""


def write_back(data: bytes, choices: Iterable[Choice]) -> bytes:
    """The bytes of a config with the choices made.

    Raises ``CannotWrite``; ``data`` must be valid TOML.
    """
    chosen = list(choices)
    data = _without_own(data)
    for choice in chosen:
        data = _with_value(data, choice)
    return _with_reasons(data, chosen)


def explained(data: bytes) -> set[str]:
    """The keys above whose lines an earlier search has written why."""
    document = parse(data)
    text = document.text
    starts = {
        path: text.rfind("\n", 0, start) + 1
        for path, (start, _) in document.spans.keys.items()
    }
    return {
        ".".join(map(str, path))
        for path, start in starts.items()
        if MARK in text[_own_start(text, start) : start]
    }


def _without_own(data: bytes) -> bytes:
    """The config without the comments of an earlier search."""
    document = parse(data)
    text, edits = document.text, []
    for start, end in comments(text):
        line, newline = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        if not text[line:start].strip() and _is_own(text[start:end]):
            edits.append(Edit(line, len(text) if newline < 0 else newline + 1, ""))
    return _encode(document, edits)


def _with_value(data: bytes, choice: Choice) -> bytes:
    document = parse(data)
    path = _path(choice)
    if _has(document, path, choice.value):
        return data
    try:
        after = _encode(document, list(set_values(document, {path: choice.value})))
    except CannotEdit as error:
        raise CannotWrite(f"{choice.key}: {error}") from None
    if _value(parse(after), path) != choice.value:
        raise CannotWrite(f"{choice.key}: the table is written in an odd way")
    return after


def _with_reasons(data: bytes, chosen: Iterable[Choice]) -> bytes:
    """Comments above the lines of the keys."""
    document = parse(data)
    text = document.text
    lines: dict[int, list[Choice]] = {}
    for choice in chosen:
        start = text.rfind("\n", 0, document.spans.keys[_path(choice)][0]) + 1
        lines.setdefault(start, []).append(choice)
    edits = [
        Edit(start, start, _comment(text, start, _reasons(here)))
        for start, here in lines.items()
    ]
    return _encode(document, edits)


def _reasons(choices: list[Choice]) -> list[str]:
    """The reasons for a line, each once; with their keys where there are several."""
    if len(choices) == 1:
        return list(choices[0].reasons)
    own = [f"{choice.key}: {choice.reasons[0]}" for choice in choices]
    return [*own, *dict.fromkeys(more for c in choices for more in c.reasons[1:])]


def _comment(text: str, start: int, reasons: list[str]) -> str:
    indent = text[start : len(text) - len(text[start:].lstrip(" \t"))]
    newline = "\r\n" if text[start:].partition("\n")[0].endswith("\r") else "\n"
    return "".join(
        f"{indent}{MARK}{line}{newline}"
        for reason in reasons
        for line in textwrap.wrap(
            plain(reason[:LONGEST]), max(1, WIDTH - len(indent) - len(MARK))
        )
    )


def _own_start(text: str, start: int) -> int:
    """Where the comment of an earlier search begins that ends at ``start``."""
    while start:
        above = text.rfind("\n", 0, start - 1) + 1
        if not _is_own(text[above:start].lstrip()):
            break
        start = above
    return start


def _is_own(line: str) -> bool:
    ignores = line.startswith("# fp8tune: ignore[") and f" -- {MEASURED}" in line
    return ignores or line.startswith(MARK)


def _path(choice: Choice) -> Path:
    return tuple(choice.key.split("."))


def _value(document: Document, path: Path) -> Any:
    value: Any = document.values
    for part in path:
        value = value[part]
    return value


def _has(document: Document, path: Path, value: Any) -> bool:
    """Whether a key has that value already, however it is written."""
    if path not in document.spans.values:
        return False
    there = _value(document, path)
    return type(there) is type(value) and there == value


def _encode(document: Document, edits: list[Edit]) -> bytes:
    return f"{chr(0xFEFF) * document.bom}{apply(document.text, edits)}".encode()
