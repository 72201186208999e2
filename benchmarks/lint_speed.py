"""How long `fp8tune lint` and `fp8tune estimate` take as whole cold processes.

fp8tune is measured from a wheel in a fresh virtual environment. All processes take
turns (A B C A B C ...) on copies of the same files, so that a slow moment of the
machine meets all of them; `python -c 'import click'` of the same run is the unit.
Exit code 1 with --strict and a missed target, else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.paths import RESULTS, ROOT

UNIT = "python -c 'import click'"
LINT = "fp8tune lint"
ESTIMATE = "fp8tune estimate"
ESTIMATED = ROOT / "configs" / "llama3_7b_16xh100_fp8.toml"
COPIES = 100
MANY_RUNS = 3
MAX_RATIO = 2.2
MAX_MANY_RATIO = 40.0
MAX_ESTIMATE_MS = 200.0


class Measured(NamedTuple):
    """A command on a number of files: wall times [ms] and exit codes."""

    name: str
    files: int
    command: list[str]
    runs_ms: list[float]
    exit_codes: list[int]

    @property
    def median(self) -> float:
        """The middle of the wall times [ms]."""
        return statistics.median(self.runs_ms)


def main(arguments: list[str] | None = None) -> int:
    """Install, measure, print and save."""
    parser = argparse.ArgumentParser(prog="lint_speed", description=__doc__)
    parser.add_argument("configs", type=Path, help="folder with train configs")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--output", type=Path, default=RESULTS / "lint_speed.json")
    parser.add_argument("--strict", action="store_true", help="exit 1 on a miss")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data = measure(Path(folder), options.configs, options.runs)
    report = show(data)
    print(report)
    options.output.write_text(json.dumps(data, indent=2) + "\n")
    options.output.with_suffix(".md").write_text(report + "\n")
    met = all(target["met"] for target in data["targets"])
    return int(options.strict and not met)


def measure(folder: Path, configs: Path, runs: int) -> dict[str, Any]:
    """Return everything that is measured, ready to be saved."""
    os.environ.pop("PYTHONPATH", None)  # it would name the checkout
    programs = install(folder)
    python, fp8tune = str(programs / "python"), str(programs / "fp8tune")
    few, many = (copy(configs, folder / str(count), count) for count in (1, COPIES))
    load = [os.getloadavg()[0]]
    small = [
        Measured("python -c pass", 0, [python, "-c", "pass"], [], []),
        Measured(UNIT, 0, [python, "-c", "import click"], [], []),
        Measured(LINT, 1, [fp8tune, "lint", *few[:1]], [], []),
        Measured(ESTIMATE, 1, [fp8tune, "estimate", str(ESTIMATED)], [], []),
        Measured(LINT, len(few), [fp8tune, "lint", *few], [], []),
    ]
    large = [Measured(LINT, len(many), [fp8tune, "lint", *many], [], [])]
    take_turns(small, runs, folder)
    take_turns(large, MANY_RUNS, folder)
    load.append(os.getloadavg()[0])
    listed = json.loads(_run([python, "-m", "pip", "list", "--format", "json"]))
    versions = ", ".join(
        f"{package['name']} {package['version']}"
        for package in listed
        if package["name"] in ("fp8tune", "click", "tomlkit")
    )
    environment = machine.describe() | {
        "load before and after": " ".join(f"{value:.2f}" for value in load),
        "versions": versions,
    }
    _, unit, _, estimate, whole = small
    return {
        "environment": environment,
        "configs": len(few),
        "measurements": [_data(each, unit) for each in (*small, *large)],
        "targets": targets(unit, estimate, whole, large[0]),
    }


def install(folder: Path) -> Path:
    """Install fp8tune's wheel in a fresh environment; return where its programs are."""
    wheels, venv = folder / "wheels", folder / "venv"
    build = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps"]
    _run([*build, "--wheel-dir", str(wheels)])
    _run([sys.executable, "-m", "venv", str(venv)])
    python = str(venv / "bin" / "python")
    _run([python, "-m", "pip", "install", *map(str, wheels.glob("*.whl"))])
    return venv / "bin"


def _run(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603


def copy(configs: Path, target: Path, copies: int) -> list[str]:
    """Copy a folder's train configs so many times; return the copies' paths."""
    for number in range(copies):
        shutil.copytree(configs, target / f"{number:03}")
    return sorted(map(str, target.rglob("*.toml")))


def take_turns(asked: Sequence[Measured], runs: int, folder: Path) -> None:
    """Run all, one after the other; the first round only warms the file cache."""
    for number in range(runs + 1):
        for each in asked:
            start = time.perf_counter()
            done = subprocess.run(  # noqa: S603 - the commands are ours
                each.command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            wall_ms = (time.perf_counter() - start) * 1000
            if number:
                each.runs_ms.append(wall_ms)
                each.exit_codes.append(done.returncode)


def targets(
    unit: Measured, estimate: Measured, few: Measured, many: Measured
) -> list[dict[str, Any]]:
    """Return what fp8tune promises of its speed, and what was measured of it."""
    ratios = [each.median / unit.median for each in (estimate, few, many)]
    found = (
        (
            f"estimate <= {MAX_ESTIMATE_MS:.0f} ms",
            f"{estimate.median:.0f} ms, {ratios[0]:.2f} x import click",
            estimate.median <= MAX_ESTIMATE_MS,
        ),
        (
            f"{few.files} files <= {MAX_RATIO} x import click",
            f"{ratios[1]:.2f} x",
            ratios[1] <= MAX_RATIO,
        ),
        (
            f"{many.files:,} files <= {MAX_MANY_RATIO:.0f} x import click",
            f"{ratios[2]:.1f} x, {many.median / 1000:.2f} s",
            ratios[2] <= MAX_MANY_RATIO,
        ),
    )
    return [dict(zip(("promise", "measured", "met"), t, strict=True)) for t in found]


def _data(found: Measured, unit: Measured) -> dict[str, Any]:
    return {
        "name": found.name,
        "files": found.files,
        "median_ms": round(found.median, 1),
        "min_ms": round(min(found.runs_ms), 1),
        "ratio": round(found.median / unit.median, 2),
        "exit_codes": sorted(set(found.exit_codes)),
        "runs_ms": [round(wall, 1) for wall in found.runs_ms],
    }


def show(data: dict[str, Any]) -> str:
    """Return the report in Markdown."""
    rows = [
        (
            entry["name"],
            str(entry["files"] or ""),
            f"{entry['median_ms']:.1f}",
            f"{entry['min_ms']:.1f}",
            f"{max(entry['runs_ms']):.1f}",
            f"{entry['ratio']:.2f}",
            str(len(entry["runs_ms"])),
        )
        for entry in data["measurements"]
    ]
    wall = ("median [ms]", "min [ms]", "max [ms]")
    head = ("process", "files", *wall, "x import click", "runs")
    lines = [f"- {key}: {value}" for key, value in data["environment"].items()]
    lines += ["", machine.table(rows, head), ""]
    for target in data["targets"]:
        verdict = "PASS" if target["met"] else "FAIL"
        lines.append(f"- {verdict}: {target['promise']} ({target['measured']})")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
