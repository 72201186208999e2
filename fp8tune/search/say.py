"""Print lines for people: harmless on a terminal, and wrapped there at words."""

from __future__ import annotations

import sys
from typing import TextIO

from fp8tune.lint.wording import plain, wrapped
from fp8tune.streams import width_of


def say(text: str, out: TextIO) -> None:
    """Print a line; a terminal gets it wrapped at words, any other reader whole."""
    line, width = plain(text), width_of(out)
    lines = wrapped(line, width) if width else [line]
    print("\n".join(lines), file=out, flush=True)


def note(text: str) -> None:
    """Print a note to stderr."""
    say(f"note: {text}", sys.stderr)
