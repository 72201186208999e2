"""Draw what a command prints in a terminal as an SVG file.

    python docs/picture.py        # writes docs/images/lint.svg

Needs rich, which `pip install '.[search]'` brings.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COMMAND = ("lint", "docs/bad.toml", "--select", "fp8-with-tensor-parallel")
PICTURE = ROOT / "docs" / "images" / "lint.svg"
WIDTH = 116
"""Columns of the terminal."""


def printed() -> str:
    """What the command prints to a terminal with colours."""
    done = subprocess.run(  # noqa: S603 (our own command line)
        [sys.executable, "-m", "fp8tune", *COMMAND],
        cwd=ROOT,
        env=os.environ | {"FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def draw(text: str, path: Path) -> None:
    """Write a picture of a terminal that shows the command and ``text``."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text(f"$ fp8tune {' '.join(COMMAND)}"))
        console.print(Text.from_ansi(text))
        picture = console.export_svg(title="fp8tune", unique_id="fp8tune")
    path.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    draw(printed(), PICTURE)
