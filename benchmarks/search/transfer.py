"""What an earlier study on a near config is worth, and what a misleading one costs.

``python -m benchmarks.search.transfer``: each landscape is searched twice, from nothing
and from a finished study of another landscape, which is near or has nothing to do with
it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.search.head_start import Both, compare
from benchmarks.search.near import near, unlike
from benchmarks.search.recording import raced, record
from benchmarks.search.transfer_table import markdown, summary

FIRST = 40000
"""The first evaluation seed; tuning used those below 100."""
CASES = {
    "near, estimate wrong by 10 %": (near, 0.10),
    "near, estimate wrong by 25 %": (near, 0.25),
    "misleading, estimate wrong by 10 %": (unlike, 0.10),
    "misleading, estimate wrong by 25 %": (unlike, 0.25),
}


def _run(name: str, seed: int) -> Both:
    make, error = CASES[name]
    return compare(make(seed), error, alike=make is near)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; exit code 1 where near studies do not halve the trials."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.transfer")
    parser.add_argument("--worlds", type=int, default=100, help="landscapes a row")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.worlds)
    found: dict[str, list[Both]] = {}
    for name, pairs in raced(CASES, seeds, _run, options.jobs):
        found[name] = pairs
        print(f"{name}: done", file=sys.stderr)
    said = summary(found, options.first)
    page = markdown(said)
    print(page)
    if options.record:
        record("transfer", said, page)
    ratios = [
        said["cases"][n]["chosen_ratio"]
        for n, (make, _) in CASES.items()
        if make is near
    ]
    return int(max(ratios) > 0.5)


if __name__ == "__main__":
    sys.exit(main())
