"""The command: run the experiments that this machine can, and record the outcomes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.options import for_checkout
from benchmarks.paths import RESULTS
from benchmarks.rule_evidence import __doc__ as about
from benchmarks.rule_evidence.config import NoData, shrink, with_data
from benchmarks.rule_evidence.launch import Run, Seen, launch
from benchmarks.rule_evidence.plan import (
    Machine,
    Task,
    missing,
    needs_gpu_time,
    observed,
    tasks,
)
from benchmarks.rule_evidence.plan import verdict as judge
from benchmarks.rule_evidence.record import NOT_RUN, Outcome, Record
from fp8tune.lint.builtin import read_builtin

GPU_ONLY = "gpu-only"
"""The group of rules that only step times of a GPU decide."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0: all that ran was shown; 1: not all; 130: interrupted."""
    options = parse(arguments)
    everything = list(tasks(read_builtin()))
    unknown = set(options.rule) - {task.rule.name for task in everything} - {GPU_ONLY}
    if unknown:
        print(f"no experiment of {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    wanted = [
        task
        for task in everything
        if not options.rule
        or task.rule.name in options.rule
        or (GPU_ONLY in options.rule and needs_gpu_time(task))
    ]
    here, absent = divide(wanted, options.device)
    record = Record(options.output)
    record.keep(everything)
    if options.new:
        here = [task for task in here if not record.ran(task)]
    for task, reason in absent:
        record.add(task, {"verdict": NOT_RUN, "reason": reason, "environment": None})
    described = machine.describe_run(options.checkout, options.commit, options.device)
    interrupted = run_all(here, options, described, record)
    counts = [record.outcomes[task.key]["verdict"] for task in here]
    said = ", ".join(f"{counts.count(v)} {v}" for v in dict.fromkeys(counts))
    print(said or "nothing to run")
    if interrupted:
        return 130
    return int(any(verdict in ("refuted", "unclear") for verdict in counts))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = for_checkout("rule_evidence", about, trains=True)
    parser.add_argument(
        "--rule",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"only these rules; {GPU_ONLY}: those that step times of a GPU decide",
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="by default cuda where torch finds it"
    )
    parser.add_argument(
        "--new", action="store_true", help="only what has no outcome yet"
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "rule_evidence.json")
    options = parser.parse_args(arguments)
    try:
        cuda = import_module("torch").cuda.is_available()
    except ModuleNotFoundError:
        parser.error("no torch here: take a Python with the trainer's requirements")
    options.device = options.device or ("cuda" if cuda else "cpu")
    if options.device == "cuda" and not cuda:
        parser.error("torch finds no CUDA device")
    return options


def divide(
    wanted: list[Task], device: str
) -> tuple[list[Task], list[tuple[Task, str]]]:
    """The tasks for this machine, and the others with what they need."""
    there = machine_of(device)
    reasons = [(task, missing(task, there)) for task in wanted]
    here = [task for task, why in reasons if not why and task.device == device]
    absent = [(task, why) for task, why in reasons if why]
    return here, absent


def machine_of(device: str) -> Machine:
    """The GPUs; none where the CPU was asked for."""
    if device == "cpu":
        return Machine(0, {})
    cuda: Any = import_module("torch").cuda
    major, minor = cuda.get_device_capability()
    memory = cuda.get_device_properties(0).total_memory / 2**30
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    figures = {"capability": major + minor / 10, "gpu_gib": memory, "host_gib": host}
    return Machine(cuda.device_count(), figures)


def run_all(
    here: list[Task],
    options: argparse.Namespace,
    described: dict[str, str],
    record: Record,
) -> bool:
    """Run the tasks, saving after each; whether Ctrl-C ended it."""
    start = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # ends the ranks, too
    record.save()
    for done, task in enumerate(here):
        left = (time.monotonic() - start) / done * (len(here) - done) if done else 0
        eta = f", about {left:.0f} s left" if done else ""
        name = f"{task.rule.name} {task.number}"
        print(f"[{done + 1}/{len(here)}{eta}] {name}", end=" ", file=sys.stderr)
        sys.stderr.flush()
        try:
            outcome = run_task(task, options, described)
        except KeyboardInterrupt:
            print("interrupted; what is done is kept", file=sys.stderr)
            return True
        why = f": {outcome['reason']}" if outcome["reason"] else ""
        print(f"{outcome['verdict']}{why}", file=sys.stderr)
        record.add(task, outcome)
        record.save()
    return False


def run_task(
    task: Task, options: argparse.Namespace, described: dict[str, str]
) -> Outcome:
    """Run an experiment and its control, and judge."""
    start = time.monotonic()
    names = observed(task)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        try:
            bad, good = (
                with_data(shrink(text, task.device), folder)
                for text in (task.experiment.config, task.experiment.control)
            )
        except NoData as error:
            return {"verdict": NOT_RUN, "reason": str(error), "environment": None}
        ran, control = (
            _clean(launch(_run(task, options, text, names), folder / name), place)
            for name, text in (("config", bad), ("control", good))
        )
    verdict, reason = judge(task, bad, ran, control)
    return {
        "verdict": verdict,
        "reason": reason,
        "observed": ran,
        "control": control,
        "seconds": round(time.monotonic() - start, 1),
        "environment": described,
    }


def _run(task: Task, options: argparse.Namespace, text: str, names: list[str]) -> Run:
    ranks = task.experiment.ranks
    return Run(options.checkout, text, task.device, ranks, names, options.timeout)


def _clean(seen: Seen, place: str) -> Seen:
    """Without the paths of this machine."""
    return {
        name: value.replace(place, "...") if isinstance(value, str) else value
        for name, value in seen.items()
    }


if __name__ == "__main__":
    sys.exit(main())
