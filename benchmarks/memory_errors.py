"""Recorded memory of a trainer's own steps on the CPU, against the estimate.

A case is what one run was, as a JSON object. Its ``family`` and ``of`` (how it was
trained) name the group in whose row of a table it counts, ``name`` the case in it, and
``peaks`` has the most bytes that were alive in each phase. The cases are those of the
recorded file; to add one, add what it is there and measure it with ``--only``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.paths import RESULTS, ROOT, python_path

Case = dict[str, Any]


class Recorded(NamedTuple):
    """The recorded cases of one trainer.

    ``release`` is the field of a case with what it was measured with, ``estimated``
    gives its estimate: ``peak_gib`` in bytes, and ``at``, the moment of the peak.
    ``head`` is the page above the table.
    """

    name: str
    step: str
    release: str
    estimated: Callable[[Case], dict[str, Any]]
    head: str

    def cases(self) -> list[Case]:
        """Return the recorded cases."""
        found: list[Case] = json.loads((RESULTS / f"{self.name}.json").read_text())
        return found

    def error(self, case: Case) -> float:
        """Return how far the estimate is above the measured peak [ratio]."""
        return float(self.estimated(case)["peak_gib"] / peak(case) - 1)

    def main(self, about: str | None, arguments: list[str] | None) -> int:
        """Measure cases again if a Python is named; print the errors."""
        parser = argparse.ArgumentParser(self.step, description=about)
        parser.add_argument("command", nargs="*", help="PYTHON, and the trainer's code")
        parser.add_argument("--only", default="", help="modes whose name contains this")
        parser.add_argument("--record", action="store_true", help="write the results")
        options = parser.parse_args(arguments)
        cases = self.cases()
        if options.command:
            python, *more = options.command
            command = [python, "-m", self.step, *more]
            again = [case for case in cases if options.only in case["of"]]
            kept = [case for case in cases if options.only not in case["of"]]
            cases = kept + measured(command, again)
        for case in cases:
            print(self.printed(case))
        page = f"{self.head}\n\n{self.table(cases)}\n"
        print(page)
        if options.record:
            lines = ",\n".join(map(json.dumps, cases))
            (RESULTS / f"{self.name}.json").write_text(f"[\n{lines}\n]\n")
            (RESULTS / f"{self.name}.md").write_text(page)
        return 0

    def table(self, cases: list[Case]) -> str:
        """Return the errors by family, mode and release."""
        groups: dict[tuple[str, str, str], list[float]] = {}
        for case in cases:
            release = case[self.release]
            if isinstance(release, dict):
                release = ", ".join(f"{name} {it}" for name, it in release.items())
            group = case["family"], case["of"], release
            groups.setdefault(group, []).append(self.error(case))
        families = list(dict.fromkeys(family for family, _, _ in groups))
        ordered = sorted(groups, key=lambda group: families.index(group[0]))
        rows = [spread(" | ".join(group), groups[group]) for group in ordered]
        head = f"| family | mode | {self.release} | runs | error, median | from | to |"
        return "\n".join(
            (head, "| --- | --- | --- | ---: | ---: | ---: | ---: |", *rows)
        )

    def printed(self, case: Case) -> str:
        """Return one line of a case: its peak, the error, and the moments of both."""
        estimate, highest = self.estimated(case), peak(case)
        moment = max(case["peaks"], key=case["peaks"].get)
        return (
            f"{case['family']:9} {case['of']:24} {case['name']:16} "
            f"{highest / 1e6:8.1f} MB {estimate['peak_gib'] / highest - 1:+7.1%}  "
            f"{moment}, {estimate['at']}"
        )


def measured(command: list[str], cases: list[Case]) -> list[Case]:
    """Return the cases with their peaks, which a command prints."""
    done = subprocess.run(  # noqa: S603
        command,
        input="".join(f"{json.dumps(case)}\n" for case in cases),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": python_path(ROOT)},
        text=True,
        check=True,
    )
    lines = (line for line in done.stdout.splitlines() if line.startswith('{"'))
    return list(map(json.loads, lines))


def peak(case: Case) -> int:
    """Return the most bytes that were alive in any phase."""
    return int(max(case["peaks"].values()))


def spread(name: str, errors: list[float]) -> str:
    """Return a row: how many errors there are, their median, and their ends."""
    errors = sorted(errors)
    middle = errors[len(errors) // 2]
    ends = f"{errors[0]:+.1%} | {errors[-1]:+.1%}"
    return f"| {name} | {len(errors)} | {middle:+.1%} | {ends} |"
