"""What benchmarks of memory share: measured cases, and errors of the estimate.

A case is what one run was, as a JSON object. Its ``family`` and ``of`` (how it was
trained) name the group in whose row of a table it counts, ``name`` the case in it, and
``peaks`` has the most bytes that were alive in each phase.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.paths import ROOT, python_path

Case = dict[str, Any]
Estimated = Callable[[Case], dict[str, Any]]
"""The estimate of a case: ``peak_gib`` in bytes, and ``at``, the moment of the peak."""


def measured(command: list[str], drawn: Iterable[Case]) -> list[Case]:
    """Return the cases with their peaks, which a command prints."""
    lines = "".join(f"{json.dumps(case)}\n" for case in drawn)
    done = subprocess.run(  # noqa: S603
        command,
        input=lines,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": python_path(ROOT)},
        text=True,
        check=True,
    )
    found = (line for line in done.stdout.splitlines() if line.startswith('{"'))
    return [json.loads(line) for line in found]


def peak(case: Case) -> int:
    """The most bytes that were alive in any phase."""
    return int(max(case["peaks"].values()))


def error(case: Case, estimated: Estimated) -> float:
    """How far the estimate is above the measured peak [ratio]."""
    return float(estimated(case)["peak_gib"] / peak(case) - 1)


def spread(name: str, errors: list[float]) -> str:
    """A row of a table: how many errors there are, their median, and their ends."""
    errors = sorted(errors)
    middle = errors[len(errors) // 2]
    ends = f"{errors[0]:+.1%} | {errors[-1]:+.1%}"
    return f"| {name} | {len(errors)} | {middle:+.1%} | {ends} |"


def printed(case: Case, estimated: Estimated) -> str:
    """One line of a case: its peak, the error, and the moments of both."""
    one, highest = estimated(case), peak(case)
    moment = max(case["peaks"], key=case["peaks"].get)
    return (
        f"{case['family']:9} {case['of']:24} {case['name']:16} {highest / 1e6:8.1f} MB"
        f" {one['peak_gib'] / highest - 1:+7.1%}  {moment}, {one['at']}"
    )


def keep(folder: Path, name: str, found: list[Case], page: str) -> None:
    """Write the cases as ``NAME.json``, and the page as ``NAME.md``."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case) for case in found)
    (folder / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
