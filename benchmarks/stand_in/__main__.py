"""Run the cases, compare both programs, and record what came out."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.options import for_checkout
from benchmarks.rows import Rows, end_by_sigterm
from benchmarks.rule_evidence.launch import Run, launch
from benchmarks.search.recording import record
from benchmarks.stand_in import cases, compare
from benchmarks.stand_in.cases import CASES, Case

TRAINER, TRIAL, SIMULATED = "trainer", "trial", "simulated rank"
MODULES = {TRAINER: "by_trainer", TRIAL: "as_trial", SIMULATED: "as_trial"}
Figures = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the cases; exit code 1 if a figure is outside its tolerance."""
    options = _options(arguments)
    chosen = [c for c in CASES if any(part in c.name for part in options.only)]
    if options.device == "cuda":
        chosen = [c for c in chosen if c.ranks == 1]
    about = machine.describe_run(options.checkout, options.commit, options.device)
    end_by_sigterm()
    rows = Rows(options.output, about)
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(options, Path(folder), rows)
        figures = {case.name: lab.figures(case) for case in chosen}
        single = [case for case in chosen if case.ranks == 1]
        times = lab.times(single, options.repeats)
    found = {
        "device": options.device,
        "cases": {name: row for name, row in figures.items() if "failed" not in row},
        "times": times,
    }
    page = compare.page(found)
    print(page)
    print(f"failed: {', '.join(rows.failed) or 'nothing'}")
    if options.record and not rows.failed:
        about["load"] = "{:.1f} to {:.1f}".format(*lab.load())
        name = "stand_in" if options.device == "cpu" else "stand_in_cuda"
        record(name, found, page, about)
    return int(bool(compare.wrong(found) or rows.failed))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = for_checkout("stand_in", compare.__doc__, trains=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="cases whose name contains one of these"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="add each run to this file (JSON lines); go on where it was cut off",
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each")
    parser.add_argument("--record", action="store_true", help="write the results")
    return parser.parse_args(arguments)


class Lab:
    """Runs of both programs, in folders below one folder."""

    def __init__(self, options: argparse.Namespace, folder: Path, rows: Rows) -> None:
        self.options, self.folder, self.rows = options, folder, rows
        self.data = folder / "data"
        cases.write_data(self.data)
        self.loads = [os.getloadavg()[0]]

    def load(self) -> tuple[float, float]:
        """The least and the most processes that wanted a core."""
        return min(self.loads), max(self.loads)

    def figures(self, case: Case) -> Figures:
        """Losses, memory and operators of both programs; ``failed`` where one did."""
        kinds = [TRAINER, TRIAL] + [SIMULATED] * (case.ranks > 1)

        def measure() -> Figures:
            found = {kind: self.run(case, kind, "profiled") for kind in kinds}
            print(compare.row(case.name, found), file=sys.stderr, flush=True)
            return found

        return self.rows.run(f"{case.name}: figures", measure)

    def times(self, chosen: Sequence[Case], repeats: int) -> dict[str, Figures]:
        """Step times by case and program [ms], of runs in turn and in random order.

        A case is left out unless both programs have a run.
        """
        found: dict[str, Figures] = {c.name: {TRAINER: [], TRIAL: []} for c in chosen}
        order = random.Random(1)  # noqa: S311
        for number in range(repeats):
            turn = [(case, kind) for case in chosen for kind in (TRAINER, TRIAL)]
            order.shuffle(turn)
            for case, kind in turn:
                name = f"{case.name}: {kind}, run {number + 1}"
                row = self.rows.run(name, partial(self.time, case, kind))
                if "failed" not in row:
                    found[case.name][kind].append(row["step_ms"])
            print(f"times {number + 1} of {repeats}", file=sys.stderr, flush=True)
        return {name: kinds for name, kinds in found.items() if all(kinds.values())}

    def time(self, case: Case, kind: str) -> Figures:
        """The step time of one run [ms]."""
        return {"step_ms": compare.step_ms(self.run(case, kind))}

    def run(self, case: Case, kind: str, *names: str) -> Figures:
        """What rank 0 saw; raises ``RuntimeError`` where the run failed."""
        self.loads.append(os.getloadavg()[0])
        place = self.folder / "run"
        shutil.rmtree(place, ignore_errors=True)
        options, ranks = self.options, case.ranks
        if kind == SIMULATED:
            names, ranks = (*names, str(case.ranks)), 1
        text = case.text(self.data, place / "checkpoints", options.device)
        said = (options.device, ranks, list(names), options.timeout)
        run = Run(options.checkout, text, *said)
        command = [sys.executable, "-m", f"benchmarks.stand_in.{MODULES[kind]}"]
        seen = launch(run, place, command)
        if seen.pop("error"):
            log = (place / "rank0.log").read_text(errors="replace")
            raise RuntimeError(f"{case.name}, {kind}:\n{log[-3000:]}")
        del seen["failed_at"]
        return seen


if __name__ == "__main__":
    sys.exit(main())
