"""How close to the optimum each strategy comes, and how soon, on generated landscapes.

Prints and records a table with paired bootstrap intervals. Landscapes of other seeds
than those that the strategy was tuned on: see HISTORY in history.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from benchmarks import machine
from benchmarks.search.field import ARMS
from benchmarks.search.landscape import world
from benchmarks.search.race import Result
from benchmarks.search.recording import raced, record
from benchmarks.search.table import markdown, summary

FIRST = 2000
"""The first evaluation seed; those of tuning are in table.py."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Race all arms; exit code 1 where a figure to reach is missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.search", description=__doc__)
    parser.add_argument("--worlds", type=int, default=100, help="landscapes to race on")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.worlds)
    found: dict[str, list[Result]] = {}
    for name, results in raced(options.arms, seeds, _run, options.jobs):
        found[name] = results
        print(f"{name}: done", file=sys.stderr)
    said = summary(found, options.first)
    page = markdown(said)
    print(page)
    if options.record:
        about = {**machine.describe(), "optuna": version("optuna")}
        record("search", said, page, about)
    return int(not all(said["reached"].values()))


def _run(name: str, seed: int) -> Result:
    return ARMS[name](world(seed))


if __name__ == "__main__":
    sys.exit(main())
