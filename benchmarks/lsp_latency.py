"""How long `fp8tune lsp` takes from an edit to its diagnostics, beside `fp8tune lint`.

fp8tune is measured from a wheel in a fresh virtual environment. A client over stdio
opens files of 100 and of 3,000 lines, edits a value, hovers and completes; between two
rounds a whole process lints the same file, so that a slow moment of the machine meets
both. An edit is answered when its version has its diagnostics. --record writes
results/lsp_latency.md; exit code 1 with --strict and a missed target, else 0.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine
from benchmarks.lint_speed import install
from benchmarks.paths import RESULTS, ROOT
from tests.support.language_client import Client, session

CONFIG = ROOT / "configs" / "llama3_7b_16xh100_fp8.toml"
DATASET = '\n[[data.datasets]]\npath = "/data/part{}"\nweight = 1.0\n'
YAML = (
    "base_model: meta-llama/Llama-3.1-8B\nfp8: true\nbf16: true\n"
    "torch_compile: true\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\n"
    "learning_rate: 1.0e-4\nsequence_len: 4096\ndatasets:\n"
)
YAML_DATASET = "  - path: /data/part{}\n    type: alpaca\n    split: train\n"
TARGETS_MS = {100: 100.0, 3000: 500.0}
"""What an edit of a file of so many lines may take at most."""


class Case(NamedTuple):
    """A file, and an edit of it: text that is replaced, and by what, to and fro."""

    name: str
    lines: int
    text: str
    old: str
    new: str


class Row(NamedTuple):
    """What was measured of a file [ms]."""

    case: Case
    what: str
    runs_ms: list[float]
    lint_ms: float

    @property
    def median(self) -> float:
        """The middle of the wall times [ms]."""
        return statistics.median(self.runs_ms)


def cases() -> list[Case]:
    """Return the files that are measured."""
    config = CONFIG.read_text(encoding="utf-8")
    edit = "batch_size = 4\n", "batch_size = 2\n"
    return [
        Case("short.toml", 100, filled(config, "# a comment\n", 100), *edit),
        Case("long.toml", 3000, filled(config, DATASET, 3000), *edit),
        Case(
            "long.yaml",
            3000,
            filled(YAML, YAML_DATASET, 3000),
            "batch_size: 1",
            "batch_size: 2",
        ),
    ]


def filled(text: str, more: str, lines: int) -> str:
    """Return a text with so many lines: ``more`` is repeated, with a number in it."""
    number = 0
    while text.count("\n") + more.count("\n") <= lines:
        text += more.format(number)
        number += 1
    return text + "# a comment\n" * (lines - text.count("\n"))


def main(arguments: list[str] | None = None) -> int:
    """Install, measure, print and record."""
    parser = argparse.ArgumentParser(prog="lsp_latency", description=__doc__)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--record", action="store_true", help="write the results")
    parser.add_argument("--strict", action="store_true", help="exit 1 on a miss")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        programs = install(Path(folder))
        more = [str(programs / "python"), "-m", "pip", "install", "-q", "pygls>=2.1"]
        subprocess.run([*more, "PyYAML>=6"], check=True)  # noqa: S603
        work = measure(Path(folder), str(programs / "fp8tune"), options.runs)
        rows = asyncio.run(work)
    report = show(rows)
    print(report)
    if options.record:
        (RESULTS / "lsp_latency.md").write_text(report + "\n", encoding="utf-8")
    return int(options.strict and "FAIL" in report)


async def measure(folder: Path, fp8tune: str, runs: int) -> list[Row]:
    """Return what was measured of each file by one server, which starts cold."""
    rows = []
    async with session(folder, fp8tune, "lsp") as client:
        for case in cases():
            path = folder / case.name
            path.write_text(case.text, encoding="utf-8")
            lint(path, fp8tune)  # warms the file cache
            opened = [await timed(client.open(path))]
            edits, hovers, offers, lints = ([0.0] * runs for _ in range(4))
            for turn in range(runs):
                lints[turn] = lint(path, fp8tune)
                old, new = (case.old, case.new)[:: -1 if turn % 2 else 1]
                edits[turn] = await timed(client.edit(path, old, new))
                hovers[turn] = await timed(client.hover(path, new))
                offers[turn] = await timed(client.complete(path, new))
            alone = statistics.median(lints)
            rows += [
                Row(case, "fp8tune lint, a process", lints, alone),
                Row(case, "opened, the first time", opened, alone),
                Row(case, "edited", edits, alone),
                Row(case, "hovered", hovers, alone),
                Row(case, "completed", offers, alone),
            ]
            await closed(client, path)
    return rows


async def closed(client: Client, path: Path) -> None:
    """Close a file, and wait until its findings are gone."""
    client.close(path)
    await client.until(lambda: not client.rules(path))


async def timed(work: Awaitable[object]) -> float:
    """Return how long something takes [ms]."""
    start = time.perf_counter()
    await work
    return (time.perf_counter() - start) * 1000


def lint(path: Path, fp8tune: str) -> float:
    """Return how long a whole process takes to lint a file [ms]."""
    start = time.perf_counter()
    subprocess.run([fp8tune, "lint", str(path)], capture_output=True, check=False)  # noqa: S603
    return (time.perf_counter() - start) * 1000


def show(rows: list[Row]) -> str:
    """Return the report in Markdown."""
    head = ("file", "lines", "what", "median [ms]", "max [ms]", "x lint", "runs")
    table = [
        (
            row.case.name,
            str(row.case.lines),
            row.what,
            f"{row.median:.1f}",
            f"{max(row.runs_ms):.1f}",
            f"{row.median / row.lint_ms:.2f}",
            str(len(row.runs_ms)),
        )
        for row in rows
    ]
    described = machine.describe("fp8tune", "pygls").items()
    lines = [f"- {key}: {value}" for key, value in described]
    lines += ["", machine.table(table, head), ""]
    for row in rows:
        if row.what == "edited":
            most = TARGETS_MS[row.case.lines]
            verdict = "PASS" if row.median <= most else "FAIL"
            what = f"{row.case.name}: an edit of {row.case.lines:,} lines"
            said = f"{what} <= {most:.0f} ms ({row.median:.0f} ms)"
            lines.append(f"- {verdict}: {said}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
