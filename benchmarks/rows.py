"""A file of results to which each case is added when it is measured."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
ALIKE = ("gpu", "device", "torch", "torchao", "trainer")
"""What rows that belong together were measured with."""
LONGEST_ERROR = 2000


class Rows:
    """The measured cases of a file of JSON lines, by name.

    Rows of the file that were measured with the same GPU, versions and trainer are
    taken, the others stay in the file. Without a path nothing is written.
    """

    def __init__(self, path: Path | None, about: Mapping[str, str]) -> None:
        self.path, self.about = path, dict(about)
        self.by_name: dict[str, Row] = {}
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        text = path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):  # the last write was cut off
            text = text[: text.rfind("\n") + 1]
            write(path, text)
        for line in text.splitlines():
            saved = json.loads(line)
            if all(saved["about"].get(k) == self.about.get(k) for k in ALIKE):
                self.by_name[saved["name"]] = saved["row"]

    def measured(self, name: str) -> bool:
        """Return whether a case has a row that is no failure."""
        return "failed" not in self.by_name.get(name, {"failed": ""})

    def add(self, name: str, row: Row) -> Row:
        """Write the row of a case."""
        self.by_name[name] = row
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                saved = {"name": name, "about": self.about, "row": row}
                file.write(f"{json.dumps(saved)}\n")
        return row

    def run(self, name: str, measure: Callable[[], Row]) -> Row:
        """Return the row of a case, measured unless it was; an error becomes a row."""
        if self.measured(name):
            return self.by_name[name]
        try:
            return self.add(name, measure())
        except Exception as error:
            return self.fail(name, error)

    def fail(self, name: str, error: Exception) -> Row:
        """Write that a case failed, and return its row."""
        text = f"{type(error).__name__}: {error}"
        print(f"{name} failed: {text}", file=sys.stderr, flush=True)
        return self.add(name, {"failed": text[-LONGEST_ERROR:]})

    @property
    def failed(self) -> list[str]:
        """The cases that failed and were not measured since."""
        return [name for name in self.by_name if not self.measured(name)]


def end_by_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does, so that it ends its workers too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def write(path: Path, text: str) -> None:
    """Replace a file in one step: whoever reads it has the old text or the new."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
