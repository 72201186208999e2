"""How long `fp8tune lint` takes as a whole cold process, beside what else checks TOML.

`fp8tune estimate` is measured with it, on a config of the repository.

fp8tune is measured from a wheel in a fresh virtual environment. All programs take
turns (A B C A B C ...) on copies of the same files, so that a slow moment of the
machine meets all of them; `python -c 'import click'` of the same run is the unit.
check-jsonschema, taplo and tombi check syntax (and a schema that permits everything):
they know nothing of trainers. The trainer's own loader and validator is measured when
a checkout is given. Exit code 1 with --strict and a missed target, else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.installed import PEERS, Installed, install
from benchmarks.process import RESULTS, ROOT, wall_ms

UNIT = "python -c 'import click'"
FP8TUNE = "fp8tune lint"
ESTIMATE = "fp8tune estimate"
ESTIMATED = ROOT / "configs" / "llama3_7b_16xh100_fp8.toml"
COPIES = 100
MANY_RUNS = 3
MAX_RATIO = 2.2
MAX_MANY_RATIO = 40.0
MAX_ESTIMATE_MS = 200.0

LOAD = """
import logging, sys
logging.disable(50)
sys.path.insert(0, sys.argv[1])
from kempnerforge.config.loader import load_config
for path in sys.argv[2:]:
    try:
        load_config(path, []).validate(1)
    except Exception:
        pass
"""


class Program(NamedTuple):
    """What is measured: a name, the number of files, and the command."""

    name: str
    files: int
    command: list[str]


class Measured(NamedTuple):
    """Wall times of one program [ms] and its exit codes."""

    name: str
    files: int
    runs_ms: list[float]
    exit_codes: list[int]

    @property
    def median(self) -> float:
        """The middle of the wall times [ms]."""
        return statistics.median(self.runs_ms)


class Target(NamedTuple):
    """A promise and what was measured of it."""

    promise: str
    measured: str
    met: bool


def main(arguments: list[str] | None = None) -> int:
    """Install, measure, print and save."""
    parser = argparse.ArgumentParser(prog="lint_speed", description=__doc__)
    parser.add_argument("configs", type=Path, help="folder with train configs")
    parser.add_argument("--trainer-checkout", type=Path)
    parser.add_argument("--trainer-python", default=sys.executable)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--output", type=Path, default=RESULTS / "lint_speed.json")
    parser.add_argument("--strict", action="store_true", help="exit 1 on a miss")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data = measure(Path(folder), options)
    report = show(data)
    print(report)
    options.output.write_text(json.dumps(data, indent=2) + "\n")
    options.output.with_suffix(".md").write_text(report + "\n")
    met = all(target["met"] for target in data["targets"])
    return int(options.strict and not met)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is measured, ready to be saved."""
    venv = install(folder)
    few = copy(options.configs, folder / "few", 1)
    many = copy(options.configs, folder / "many", COPIES)
    schema = folder / "schema.json"
    schema.write_text("{}")
    trainer = _trainer(options.trainer_python, options.trainer_checkout)
    load = [os.getloadavg()[0]]
    small = rounds(
        [
            Program("python -c pass", 0, [venv.python, "-c", "pass"]),
            Program(UNIT, 0, [venv.python, "-c", "import click"]),
            Program(FP8TUNE, 1, [venv.find("fp8tune"), "lint", *few[:1]]),
            Program(ESTIMATE, 1, [venv.find("fp8tune"), "estimate", str(ESTIMATED)]),
            *programs(venv, few, schema, trainer),
        ],
        options.runs,
        folder,
    )
    large = rounds(programs(venv, many, schema, trainer), MANY_RUNS, folder)
    load.append(os.getloadavg()[0])
    environment = machine.describe() | {
        "load before and after": " ".join(f"{value:.2f}" for value in load),
        "versions": ", ".join(_versions(venv)),
    }
    return {
        "environment": environment,
        "configs": len(few),
        "measurements": [_data(found, small) for found in (*small, *large)],
        "notes": list(_notes(venv, bool(trainer))),
        "targets": [target._asdict() for target in targets(small, large)],
    }


def copy(configs: Path, target: Path, copies: int) -> list[str]:
    """Copy a folder's train configs so many times; returns the copies' paths."""
    for number in range(copies):
        shutil.copytree(configs, target / f"{number:03}")
    return sorted(map(str, target.rglob("*.toml")))


def programs(
    venv: Installed, files: list[str], schema: Path, trainer: list[str]
) -> list[Program]:
    """All that check the same files."""
    commands = {
        FP8TUNE: [venv.find("fp8tune"), "lint"],
        "check-jsonschema": [
            venv.find("check-jsonschema"),
            "--schemafile",
            str(schema),
        ],
        "taplo lint": [venv.find("taplo"), "lint"],
        "tombi lint --offline": [venv.find("tombi"), "lint", "--offline"],
        "trainer's load and validate": trainer or [""],
    }
    return [
        Program(name, len(files), [*command, *files])
        for name, command in commands.items()
        if command[0]
    ]


def _trainer(python: str, checkout: Path | None) -> list[str]:
    return [] if checkout is None else [python, "-c", LOAD, str(checkout)]


def rounds(asked: list[Program], runs: int, folder: Path) -> list[Measured]:
    """Let the programs take turns; the first round only warms the file cache."""
    measured = [Measured(name, files, [], []) for name, files, _ in asked]
    for number in range(runs + 1):
        for program, found in zip(asked, measured, strict=True):
            wall, code = wall_ms(program.command, folder)
            if number:
                found.runs_ms.append(wall)
                found.exit_codes.append(code)
    return measured


def targets(small: list[Measured], large: list[Measured]) -> list[Target]:
    """What fp8tune promises of its speed."""
    unit = _one(small, UNIT).median
    few, many = max(_all(small)), max(_all(large))
    estimate = _one(small, ESTIMATE).median
    return [
        Target(
            f"estimate <= {MAX_ESTIMATE_MS:.0f} ms",
            f"{estimate:.0f} ms, {estimate / unit:.2f} x import click",
            estimate <= MAX_ESTIMATE_MS,
        ),
        Target(
            f"{few[0]} files <= {MAX_RATIO} x import click",
            f"{few[1] / unit:.2f} x",
            few[1] <= MAX_RATIO * unit,
        ),
        Target(
            f"{many[0]:,} files <= {MAX_MANY_RATIO:.0f} x import click",
            f"{many[1] / unit:.1f} x, {many[1] / 1000:.2f} s",
            many[1] <= MAX_MANY_RATIO * unit,
        ),
    ]


def _all(measured: Iterable[Measured]) -> list[tuple[int, float]]:
    return [(found.files, found.median) for found in measured if found.name == FP8TUNE]


def _one(measured: Iterable[Measured], name: str) -> Measured:
    return next(found for found in measured if found.name == name)


def _versions(venv: Installed) -> list[str]:
    names = ("fp8tune", "click", "tomlkit", *PEERS)
    return [f"{name} {venv.versions[name]}" for name in names if name in venv.versions]


def _notes(venv: Installed, trainer: bool) -> Iterable[str]:
    missing = [peer for peer in PEERS if not venv.find(peer)]
    if missing:
        yield f"missing, so not measured: {', '.join(missing)}"
    if not trainer:
        yield "no trainer checkout was given, so its own loader is not measured"
    yield "check-jsonschema gets the schema {}, which permits everything"
    yield "exit codes are not compared: fp8tune may find what the others cannot"


def _data(found: Measured, small: list[Measured]) -> dict[str, Any]:
    return {
        "name": found.name,
        "files": found.files,
        "median_ms": round(found.median, 1),
        "min_ms": round(min(found.runs_ms), 1),
        "ratio": round(found.median / _one(small, UNIT).median, 2),
        "exit_codes": sorted(set(found.exit_codes)),
        "runs_ms": [round(wall, 1) for wall in found.runs_ms],
    }


def show(data: dict[str, Any]) -> str:
    """The report in Markdown."""
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
    lines += ["", *(f"- {note}" for note in data["notes"])]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
