"""Results of a benchmark in a file that is written case by case.

A benchmark on a GPU may be cut off at any moment, and some cases may fail. What the
file holds already is not measured again, so that the same command goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ALIKE = ("gpu", "cpu", "device", "torch", "torchao", "trainer")
"""What the environments of results in one file have in common."""


class CaseFile:
    """Results by the name of their case; without a path they are not kept.

    ``results`` has what was measured, ``failures`` the last words of cases that failed,
    which are measured again by the next command.
    """

    def __init__(self, path: Path | None, about: dict[str, str]) -> None:
        self.path, self.about = path, about
        self.results: dict[str, Any] = {}
        self.failures: dict[str, str] = {}
        if path and path.exists():
            kept = json.loads(path.read_text())
            if all(kept["about"].get(name) == about.get(name) for name in ALIKE):
                self.results = kept["results"]

    def run(self, name: str, measure: Callable[[], Any]) -> None:
        """Measure a case unless it is there; note a failure and go on."""
        if name in self.results:
            return
        try:
            self.put(name, measure())
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            said = str(error)[-1000:] or type(error).__name__
            print(f"{name}: failed: {said}", file=sys.stderr, flush=True)
            self.failures[name] = said
            self.save()

    def put(self, name: str, result: Any) -> None:
        """Keep a result, and write the file."""
        self.results[name] = result
        self.save()

    def of(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the results of these cases, in their order; failed ones are absent."""
        return {name: self.results[name] for name in names if name in self.results}

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is None:
            return
        data = {
            "about": self.about,
            "results": self.results,
            "failures": self.failures,
        }
        part = self.path.with_name(f"{self.path.name}.part")
        part.write_text(f"{json.dumps(data, indent=1)}\n", encoding="utf-8")
        part.replace(self.path)
