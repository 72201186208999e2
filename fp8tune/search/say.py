"""Print lines for people: harmless on a terminal, and wrapped there at words."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import TextIO

from fp8tune.lint.wording import plain

_UNIT = re.compile(r"(?<=\d) (?=%|GiB|tokens/)|(?<=#) ")
"""The space between a number and its unit, or behind the sign of a comment."""


def say(text: str, out: TextIO) -> None:
    """Print a line; a terminal gets it wrapped at words, any other reader whole."""
    lines = [plain(text)]
    if out.isatty():
        lines = wrapped(lines[0], max(20, shutil.get_terminal_size().columns))
    print("\n".join(lines), file=out, flush=True)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines that end between words, but never before a unit."""
    bound = _UNIT.sub("\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(bound, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def note(text: str) -> None:
    """Print a note to stderr."""
    say(f"note: {text}", sys.stderr)
