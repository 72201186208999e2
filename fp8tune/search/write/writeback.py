"""Write the chosen values into one file, with comments that say why.

A block of whole sentences is written above the first changed key, and a reason above
each changed key. Comments go above, not after, a key: then the user's own comment after
a key stays, keys that share a line have room, and the next search replaces whole lines.
Where no comment may stand right above a key, as within a continued command of a script,
it goes above that. A format without comments gets the same sentences in a file of
their own (``notes``). Every other byte stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fp8tune.config.mark import SEARCH
from fp8tune.formats import parse
from fp8tune.formats.document import (
    ConfigDocument,
    InvalidText,
    Path,
    Unreadable,
)
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.values import same
from fp8tune.search import CannotSearch
from fp8tune.search.write.script import Script
from fp8tune.search.write.toml_check import check_others
from fp8tune.words import plain, wrapped

MARK = SEARCH
"""How every comment begins that a search writes into a config."""
MEASURED = "fp8tune search measured"
"""How the reason of an ignore comment begins that a search has written."""
WIDTH = 100
"""Longest line of a comment, unless a word is longer [characters]."""
BLOCK = 16
"""Most lines of the block above the first changed key."""
Text = ConfigDocument | Script
LONGEST = 400
"""Longest text that is written [characters]; records may hold anything."""
_BOM = "\ufeff"


class Choice(NamedTuple):
    """A key, its new value, and one line with its old value and the reason.

    ``None`` removes the key.
    """

    key: str
    value: Any
    reason: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the tables and the key."""
        return tuple(self.key.split("."))


class CannotWrite(CannotSearch):
    """The values cannot be written into this file; the message says why in one line."""


def write_back(
    data: bytes,
    choices: Iterable[Choice],
    summary: Iterable[str] = (),
    *,
    path: str = "",
    reads: str = "",
) -> bytes:
    """Return the bytes of a file with the choices and their comments written.

    ``summary`` is the text of the block, one sentence per line. Comments of an earlier
    search are replaced. The name ``path`` says the format, ``reads`` what loads it.
    ``data`` must be valid. Raises ``CannotWrite``.
    """
    document = parse(data, path)
    document.read_as(reads)
    bom = _BOM * document.bom
    chosen = [choice for choice in choices if not _is_so(document, choice)]
    try:
        if f"{bom}{document.text}".encode() != data:
            raise CannotEdit("its lines end as on Windows, or it is not UTF-8")
        document = document.read(without_own(document.text, document.comments()))
        text, offsets = _changed(document, chosen)
        if document.format != "json":
            text = commented(
                document.read(text), zip(offsets, chosen, strict=True), list(summary)
            )
    except (CannotEdit, InvalidText, Unreadable) as error:
        raise CannotWrite(str(error)) from None
    return f"{bom}{text}".encode()


def _is_so(document: ConfigDocument, choice: Choice) -> bool:
    """Return whether a key to remove, or a flag to turn off, is not there."""
    gone = choice.value is None or (choice.value is False and document.format == "bash")
    values: Any = document.values
    for name in choice.path if gone else ():
        values = values.get(name) if isinstance(values, dict) else None
    return gone and values is None


def _changed(
    document: ConfigDocument, chosen: Sequence[Choice]
) -> tuple[str, list[int]]:
    """Return the text with other values, and where each of them stands in it.

    Raises ``CannotEdit``.
    """
    before = document
    places: dict[str, int] = {}
    for choice in sorted(chosen, key=lambda choice: choice.value is None):
        path: Path = choice.path
        try:
            edits = (
                [document.remove_key(path)]
                if choice.value is None
                else [*document.set_values({path: choice.value})]
            )
            document = document.read(apply(document.text, edits))
        except CannotEdit as error:
            raise CannotEdit(f"{choice.key}: {error}") from None
        places = {key: moved(place, edits) for key, place in places.items()}
        places[choice.key] = min((edit.start for edit in edits), default=0)
    if document.format == "toml":
        check_others(before, document, [choice.path for choice in chosen])
    spans = {} if document.format == "bash" else document.spans.keys
    return document.text, [
        spans[choice.path][0] if choice.path in spans else places[choice.key]
        for choice in chosen
    ]


def moved(place: int, edits: Iterable[Edit]) -> int:
    """Return where an offset into a text is after edits of the text."""
    before = [edit for edit in edits if edit.start < place]
    return place + sum(len(e.text) + e.start - min(e.end, place) for e in before)


def commented(
    document: Text,
    reasons: Iterable[tuple[int, Choice]],
    summary: Sequence[str],
) -> str:
    """Return the text with the block above the first place, and a reason above each.

    ``reasons`` are the places of the changed keys. Raises ``CannotEdit``.
    """
    position = document.lines.position
    lines: dict[int, list[Choice]] = {}
    for offset, choice in sorted(reasons, key=lambda each: each[0]):
        above = _line_for_comment(document, position(offset).line)
        lines.setdefault(above, []).append(choice)
    edits = []
    for number, (line, choices) in enumerate(sorted(lines.items())):
        indent = _indent(document, line)
        width = max(20, WIDTH - len(indent) - len(MARK))
        alone = len(choices) == 1 and _names(document.lines.line(line), choices[0])
        mine = [choice for choice in choices if choice.reason]
        texts = [c.reason if alone else f"{c.key}: {c.reason}" for c in mine]
        said = _block(summary, width) if number == 0 else []
        said += (each for text in texts for each in _wrapped(text, width))
        edits.append(_above(document, line, said))
    return apply(document.text, edits)


def _names(line: str, choice: Choice) -> bool:
    """Return whether a line names the key of a choice, in YAML or as a flag."""
    name = choice.key.rpartition(".")[2]
    return name in line or name.replace("_", "-") in line


def _line_for_comment(document: Text, line: int) -> int:
    """Return the next line, this one or above it, over which a comment may stand."""
    for above in range(line, 0, -1):
        edit = _above(document, above, [""])
        text = apply(document.text, [edit])
        start = edit.start + len(_indent(document, above))
        try:
            after = document.read(text)
        except (InvalidText, Unreadable):
            continue
        is_comment = any(span[0] == start for span in after.comments())
        if is_comment and same(after.values, document.values):
            return above
    raise CannotEdit("no comment can stand above it")


def _above(document: Text, line: int, said: Iterable[str]) -> Edit:
    """Return the edit that writes comments above a line."""
    start, indent = document.lines.offset(line), _indent(document, line)
    newline = "\r\n" if "\r\n" in document.text else "\n"
    text = "".join(f"{indent}{MARK}{each}{newline}" for each in said)
    return Edit(start, start, text)


def _indent(document: Text, line: int) -> str:
    text = document.lines.line(line)
    return text[: len(text) - len(text.lstrip())]


def notes(name: str, choices: Sequence[Choice], summary: Sequence[str]) -> bytes:
    """Return as Markdown what comments would say; ``name`` is the file's."""
    reasons = (f"`{c.key}`: {c.reason}" for c in choices if c.reason)
    texts = (text for text in (*summary, *reasons) if len(text) <= LONGEST)
    lines = "".join(f"- {plain(text)}\n" for text in texts)
    return f"{MARK}{name}\n\n{lines}".encode()


def without_own(text: str, comments: Iterable[tuple[int, int]]) -> str:
    """Return a text without the comments of an earlier search."""
    edits = []
    for start, end in comments:
        line, newline = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        if not text[line:start].strip() and is_own(text[start:end]):
            edits.append(Edit(line, len(text) if newline < 0 else newline + 1, ""))
    return apply(text, edits)


def is_own(comment: str) -> bool:
    """Return whether a search, of this version or an earlier one, wrote a comment."""
    ignores = comment.startswith("# fp8tune: ignore[") and f" -- {MEASURED}" in comment
    return ignores or comment.startswith(MARK)


def _block(summary: Sequence[str], width: int) -> list[str]:
    """Return the lines of the block: the texts that fit as a whole."""
    lines: list[str] = []
    for text in summary:
        more = _wrapped(text, width)
        if len(lines) + len(more) <= BLOCK:
            lines += more
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines, the last of which is no single word.

    A text that is longer than people read has none.
    """
    if len(text := plain(text[: LONGEST + 1])) > LONGEST:
        return []
    lines = wrapped(text, width)
    while len(lines) > 1 and " " not in lines[-1] and width > len(lines[-1]):
        width -= 1
        lines = wrapped(text, width)
    return lines
