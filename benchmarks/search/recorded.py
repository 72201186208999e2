"""Whole searches on recorded landscapes.

A recorded landscape is every setting of a config, run once for real
(`python -m benchmarks.on_gpu landscape`). What was measured is taken for the truth;
each search draws its own noise of 0.5 % between runs, since one run does not tell it.
Figures are fractions of the best setting that leaves memory free.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.process import RESULTS, ROOT
from benchmarks.search.budgets import HEAD, MINUTES, RULE, line, searched
from benchmarks.search.landscape import Truth, World
from benchmarks.search.recording import record
from fp8tune.job import Target
from fp8tune.search.plan import Plan, read_config
from fp8tune.search.recorded import plan_for_records
from fp8tune.trials.record import Record, parse_all

FILE = re.compile(r"landscape_(.+)_(cuda|cpu)\.jsonl")
NOISE = 0.005
"""Relative: between runs of a setting, the middle of what generated landscapes have."""


class Landscape(NamedTuple):
    """A file of records, and the config that they are of."""

    records: Path
    config: Path


def landscapes(folder: Path, configs: Path) -> Iterator[Landscape]:
    """Every recorded landscape of a folder whose config is there."""
    for path in sorted(folder.rglob("landscape_*.jsonl")):
        found = FILE.fullmatch(path.name)
        config = configs / f"{found[1]}.toml" if found else None
        if config and config.exists():
            yield Landscape(path, config)


def read(landscape: Landscape) -> tuple[Plan, list[Record]]:
    """The search over exactly what was recorded, with the config's precision kept."""
    config = read_config(
        str(landscape.config), landscape.config.read_bytes(), Target("", 1)
    )
    with landscape.records.open(encoding="utf-8") as lines:
        return plan_for_records(config, list(parse_all(iter(lines))), ())


def world(landscape: Landscape, seed: int) -> World:
    """The landscape with a seed's noise."""
    plan, records = read(landscape)
    space = plan.space
    truth = {space.point(one.knobs): _truth(one) for one in records}
    capacity = max(one.capacity_gib for one in records)
    return World(seed, space, plan.baseline, truth, NOISE, capacity)


def _truth(one: Record) -> Truth:
    speed = one.tokens_per_second
    micro_s = statistics.median(one.step_ms) / 1e3 if one.step_ms else 0.0
    start_s = max(0.0, one.cost_s - sum(one.all_step_ms) / 1e3)
    return Truth(one.outcome, speed, speed, one.peak_gib, start_s, micro_s=micro_s)


def measured(landscape: Landscape, seeds: range) -> list[dict[str, Any]]:
    """Whole searches on a landscape, each with its own noise between runs."""
    return [
        searched(world(landscape, seed), minutes, 0.0)
        for minutes in MINUTES
        for seed in seeds
    ]


def page(landscape: Landscape, rows: Sequence[dict[str, Any]]) -> str:
    """The table of one landscape."""
    plan, records = read(landscape)
    settings = len({plan.space.point(one.knobs) for one in records})
    lines = [
        f"## {landscape.config.name} ({records[0].environment})",
        "",
        f"`{landscape.records.name}`: {settings} settings, of which "
        f"{sum(one.ok for one in records)} ran.",
        "",
        HEAD,
        RULE,
        *(line([r for r in rows if r["minutes"] == minutes]) for minutes in MINUTES),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Search every recorded landscape; exit code 1 where there is none."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.search.recorded", description=__doc__
    )
    parser.add_argument("--searches", type=int, default=40, help="per landscape")
    parser.add_argument("--landscapes", type=Path, default=RESULTS, help="folder")
    parser.add_argument("--configs", type=Path, default=ROOT / "configs")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    found = list(landscapes(options.landscapes, options.configs))
    if not found:
        print("no landscape is recorded: python -m benchmarks.on_gpu landscape CONFIG")
        return 1
    rows = {each: measured(each, range(options.searches)) for each in found}
    text = "\n\n".join(page(each, own) for each, own in rows.items())
    print(text)
    if options.record:
        said = {each.records.name: own for each, own in rows.items()}
        record("search_recorded", said, f"# {__doc__.strip()}\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
