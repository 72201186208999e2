"""Print lines for people: harmless on a terminal, and wrapped there at words."""

from __future__ import annotations

import sys
from typing import TextIO

from fp8tune.streams import width_of
from fp8tune.words import plain, wrapped


def say(text: str, out: TextIO) -> None:
    """Print a line; a terminal gets it wrapped at words, any other reader whole."""
    line, width = plain(text), width_of(out)
    lines = wrapped(line, width) if width else [line]
    print("\n".join(lines), file=out, flush=True)


def say_next(command: str, out: TextIO) -> None:
    """Print what to type next; a terminal gets lines that a shell joins again.

    ``command`` may have a remark behind ``  # ``. Quoted words are not wrapped.
    """
    line, width = plain(f"next: {command}"), width_of(out)
    if not width or len(line) <= width or "'" in line:
        print(line, file=out, flush=True)
        return
    typed, _, remark = line.partition("  # ")
    print(" \\\n  ".join(wrapped(typed, width - 2)), file=out, flush=True)
    if remark:
        say(f"# {remark}", out)


def note(text: str) -> None:
    """Print a note to stderr."""
    say(f"note: {text}", sys.stderr)
