"""The command: run the faults with their controls, print and record the figures."""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.options import for_checkout
from benchmarks.search.recording import record
from benchmarks.trainer_faults import __doc__ as about
from benchmarks.trainer_faults.faults import FAULTS
from benchmarks.trainer_faults.lab import Lab

HEAD = ("rule", "figure", "fault", "control")


def main(arguments: list[str] | None = None) -> int:
    """Measure the faults that are asked for; all of them are recorded."""
    options = parse(arguments)
    where = machine.describe_run(options.checkout, options.commit, "cpu")
    said = []
    for rule in options.rule or FAULTS:
        print(rule, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as place:
            lab = Lab(options.checkout, Path(place), options.timeout)
            said += [{"rule": rule, **f._asdict()} for f in FAULTS[rule](lab)]
    page = machine.table([tuple(map(shown, row.values())) for row in said], HEAD)
    print(page)
    if options.record:
        note = "Written by `python -m benchmarks.trainer_faults`; see ../README.md."
        text = f"# Faults of the trainer, measured\n\n{note}\n\n{page}"
        record("trainer_faults", {"figures": said}, text, where)
    return 0


def shown(value: Any) -> str:
    """A figure as a cell: of named ones how many, which, the least and the largest."""
    if isinstance(value, dict) and value:
        kinds = sorted({".".join(name.split(".")[-2:]) for name in value})
        ends = f", {min(value.values()):.2g} to {max(value.values()):.2g}"
        return f"{len(value)}: {', '.join(kinds)}{ends}"
    if isinstance(value, list):
        return ", ".join(f"{part:.2f}" for part in value)
    if isinstance(value, float):
        return f"{value:.2g}"
    return " ".join(str(value or 0).split())


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = for_checkout("trainer_faults", about, trains=True)
    parser.add_argument(
        "--rule", action="append", choices=FAULTS, help="only this rule's; not recorded"
    )
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    if options.record and options.rule:
        parser.error("--record takes all of the faults")
    if find_spec("torch") is None:
        parser.error("no torch here: take a Python with the trainer's requirements")
    return options


if __name__ == "__main__":
    sys.exit(main())
