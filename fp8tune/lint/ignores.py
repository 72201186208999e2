"""Remove ignore comments, or names in them, from a config, and add them."""

from __future__ import annotations

from collections.abc import Iterable

from fp8tune.config.mark import Ignore, goes_on, read_ignores
from fp8tune.formats.document import ConfigDocument, InvalidText
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.lint.diagnostic import Diagnostic

NO_COMMENTS = (
    "no ignore comments were added to JSON that has none: programs that read it with "
    "Python's json refuse them"
)
NO_PLACE = "no ignore comments were added: a comment there changes what the file says"


def without(text: str, ignore: Ignore, index: int) -> Edit:
    """Return the edit that removes a name from a comment, or the whole comment."""
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
    """Return the edit that replaces a name in a comment."""
    return Edit(*ignore.places[index], name)


def with_ignores(
    document: ConfigDocument, findings: Iterable[Diagnostic], words: str
) -> list[Edit]:
    """Return edits that add comments above findings, or names to existing comments.

    ``words`` follow the names: the last day and the reason. A comment with other words
    is not changed, because its words belong to its own names. Raises ``CannotEdit``
    where a comment has no place.
    """
    if document.format == "json" and not any(document.comments()):
        raise CannotEdit(NO_COMMENTS)
    edits = _comments(document, findings, words)
    try:
        same = document.read(apply(document.text, edits)).values == document.values
    except InvalidText:
        same = False
    if not same:
        raise CannotEdit(NO_PLACE)
    return edits


def _comments(
    document: ConfigDocument, findings: Iterable[Diagnostic], words: str
) -> list[Edit]:
    """Return the edits of ``with_ignores``, whatever they do to the values."""
    by_line: dict[int, list[str]] = {}
    for found in findings:
        names = by_line.setdefault(_first(document, found.region.line), [])
        if found.rule not in names:
            names.append(found.rule)
    there = {
        line: ignore
        for ignore in read_ignores(document)
        for line in ignore.lines
        if ignore.places and not ignore.problem and ignore.words == words
    }
    return [
        _more(there[line], names)
        if line in there
        else _above(document, line, f"# fp8tune: ignore[{', '.join(names)}]{words}")
        for line, names in by_line.items()
    ]


def _first(document: ConfigDocument, line: int) -> int:
    """Return the first line of what a finding is in: of a script, of its command."""
    while document.format == "bash" and line > 1 and goes_on(document.lines, line - 1):
        line -= 1
    return line


def _more(ignore: Ignore, names: list[str]) -> Edit:
    end = ignore.places[-1][1]
    new = [name for name in names if name not in ignore.names]
    return Edit(end, end, "".join(f", {name}" for name in new))


def _above(document: ConfigDocument, line: int, comment: str) -> Edit:
    text = document.lines.line(line)
    indent = text[: len(text) - len(text.lstrip())]
    start = document.lines.offset(line)
    newline = "\r\n" if "\r\n" in document.text else "\n"
    return Edit(start, start, f"{indent}{comment}{newline}")
