"""Draw the pictures of the README.

    python docs/picture.py                # docs/images/lint.svg: a terminal
    python docs/picture.py REPORT.html    # docs/images/report.png: its first screen

The first needs rich, which `pip install '.[search]'` brings; the second needs Chromium.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COMMAND = ("lint", "docs/bad.toml", "--select", "fp8-with-tensor-parallel")
PICTURE = ROOT / "docs" / "images" / "lint.svg"
WIDTH = 116
"""Columns of the terminal."""
SCREEN = ROOT / "docs" / "images" / "report.png"
SIZE = "1100,1480"
"""Pixels of the report that the picture shows."""


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


def photograph(report: Path, path: Path) -> None:
    """Write a picture of the first screen of a report, as Chromium shows it."""
    with tempfile.TemporaryDirectory() as profile:
        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
        words += ["--no-first-run", "--disable-background-networking"]
        words += [f"--user-data-dir={profile}", "--hide-scrollbars"]
        words += [f"--window-size={SIZE}", f"--screenshot={path}"]
        subprocess.run([*words, report.resolve().as_uri()], check=True)  # noqa: S603


if __name__ == "__main__":
    for given in sys.argv[1:]:
        photograph(Path(given), SCREEN)
    if not sys.argv[1:]:
        draw(printed(), PICTURE)
