"""Values, counts, tables and text of others, as every part of fp8tune writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, TextIO

from fp8tune.job import Prose, Words

MAX_SHOWN = 80
"""Longest value in a message [characters]."""

_CONTROL = (
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufeff\ufffe\uffff]"
)


def shown(value: Any) -> str:
    """Return a value as in TOML, on one line and of bounded length."""
    if isinstance(value, Prose):
        return plain(value)
    text = _text(value, 4)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 4]} ..."


def counted(number: int, what: str) -> str:
    """Return ``1 trial``, ``2 trials``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def plain(text: str) -> str:
    """Return text with control, direction and invalid characters escaped.

    The result is safe on a terminal and in a TOML comment.
    """
    if text.isprintable():
        return text
    return re.sub(_CONTROL, lambda match: f"\\u{ord(match[0]):04x}", text)


def write_patch(text: str, out: TextIO) -> None:
    """Write a patch: a terminal gets control characters escaped, a file every byte."""
    if out.isatty():
        text = "".join(f"{plain(line)}\n" for line in text.split("\n")[:-1])
    out.write(text)


def clean(text: str, most: int = 300) -> str:
    """Return one line of bounded length without control and direction characters."""
    return plain(text if len(text) <= most else f"{text[: most - 4]} ...")


_UNIT = r"(?<=\d) (?=%|GiB|tokens/)|(?<=#) "
"""The space between a number and its unit, or behind the sign of a comment."""


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines that end between words, but never before a unit.

    A word that is longer than ``width`` stays whole. Lines keep the indent of the first
    one.
    """
    import textwrap

    lines = textwrap.wrap(
        re.sub(_UNIT, "\N{NO-BREAK SPACE}", text),
        width,
        subsequent_indent=text[: len(text) - len(text.lstrip())],
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


NARROWEST = 12
"""Narrowest column of a table whose cells are wrapped [characters]."""


def column_widths(rows: Sequence[Sequence[str]], width: int = 0) -> list[int]:
    """Return the widths of columns two spaces apart, if possible within ``width``.

    0 is no limit.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    while width and sum(widths) + 2 * (len(widths) - 1) > width:
        widest = max(widths)
        if widest <= NARROWEST:
            break
        widths[widths.index(widest)] -= 1
    return widths


def aligned(row: Sequence[str], widths: Sequence[int], *, wraps: bool) -> Iterator[str]:
    """Yield the lines of a row of a table: one, unless its cells are wrapped."""
    cells = [
        wrapped(cell, width) if wraps and len(cell) > width else [cell]
        for cell, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*cells, fillvalue=""):
        padded = (f"{part:{width}}" for part, width in zip(parts, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _text(value: Any, depth: int) -> str:
    if isinstance(value, Words):
        return plain(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        quoted = value[: 2 * MAX_SHOWN].replace("\\", "\\\\").replace('"', '\\"')
        return f'"{plain(quoted)}"'
    if isinstance(value, (list, tuple, dict)):
        return _container(value, depth)
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 77 digits"
    return "unset" if value is None else plain(str(value))


def _container(value: Any, depth: int) -> str:
    if depth == 0:
        return "..."
    if isinstance(value, dict):
        items = list(value.items())[:8]
        inside = (f"{plain(str(k)[:40])} = {_text(v, depth - 1)}" for k, v in items)
        return f"{{ {', '.join(inside)} }}" if value else "{}"
    return f"[{', '.join(_text(item, depth - 1) for item in value[:16])}]"
