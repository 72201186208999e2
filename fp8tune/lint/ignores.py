"""Take ignore comments, or names in them, out of a config; and put them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp8tune.toml.edit import Edit

if TYPE_CHECKING:
    from fp8tune.lint.suppress import Ignore


def without(text: str, ignore: Ignore, index: int) -> Edit:
    """The comment without one of its names, or no comment if that was the last."""
    if len(ignore.names) == 1:
        return _without_comment(text, *ignore.span)
    start, end = ignore.places[index]
    if index + 1 < len(ignore.places):
        return Edit(start, ignore.places[index + 1][0], "")
    return Edit(ignore.places[index - 1][1], end, "")


def _without_comment(text: str, start: int, end: int) -> Edit:
    line = text.rfind("\n", 0, start) + 1
    before = text[line:start]
    if before.strip():
        last = end - text[start:end].endswith("\r")
        return Edit(line + len(before.rstrip()), last, "")
    newline = text.find("\n", end)
    return Edit(line, len(text) if newline < 0 else newline + 1, "")


def renamed(ignore: Ignore, index: int, name: str) -> Edit:
    """The comment with another name in the place of one."""
    return Edit(*ignore.places[index], name)
