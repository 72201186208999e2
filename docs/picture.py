"""Draw the picture of the README: the first screen of a report, as Chromium shows it.

``python docs/picture.py REPORT.html`` writes docs/images/report.png.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

SCREEN = Path(__file__).parent / "images" / "report.png"
SIZE = "1100,1480"
"""Pixels of the report that the picture shows."""


def photograph(report: Path, path: Path) -> None:
    """Write a picture of the first screen of a report, as Chromium shows it."""
    with tempfile.TemporaryDirectory() as profile:
        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
        words += ["--no-first-run", "--disable-background-networking"]
        words += [f"--user-data-dir={profile}", "--hide-scrollbars"]
        words += [f"--window-size={SIZE}", f"--screenshot={path}"]
        subprocess.run([*words, report.resolve().as_uri()], check=True)  # noqa: S603


if __name__ == "__main__":
    photograph(Path(sys.argv[1]), SCREEN)
