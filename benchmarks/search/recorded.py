"""How close to the optimum each strategy comes on recorded landscapes.

A recorded landscape is every setting of a config, run once for real
(``python -m benchmarks.on_gpu landscape``). What was measured is taken for the truth;
each race draws its own noise between runs, since one run does not tell it. Strategies
that need an estimate of settings that do not run are left out.
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
from benchmarks.search.field import ARMS
from benchmarks.search.landscape import Truth, World
from benchmarks.search.race import Result
from benchmarks.search.recording import raced, record
from benchmarks.search.table import fractions, gaps, summary
from fp8tune.job import Target
from fp8tune.search.plan import Plan, read_config
from fp8tune.search.recorded import plan_for_records
from fp8tune.trials.record import Record, parse_all

FILE = re.compile(r"landscape_(.+)_(cuda|cpu)\.jsonl")
NOISE = 0.005
"""Relative: between runs of a setting, the middle of what generated landscapes have."""
FIELD = [name for name in ARMS if "estimate" not in name]


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


def _run(task: tuple[Landscape, str], seed: int) -> Result:
    landscape, name = task
    return ARMS[name](world(landscape, seed))


def measured(
    found: Sequence[Landscape], field: Sequence[str], seeds: range, jobs: int
) -> Iterator[dict[str, Any]]:
    """The figures of each landscape."""
    tasks = [(landscape, name) for landscape in found for name in field]
    results = dict(raced(tasks, seeds, _run, jobs))
    for landscape in found:
        mine = {name: results[landscape, name] for name in field}
        plan, records = read(landscape)
        yield {
            "landscape": landscape.records.name,
            "config": landscape.config.name,
            "environment": records[0].environment,
            "settings": len({plan.space.point(one.knobs) for one in records}),
            "ran": sum(one.ok for one in records),
            "races": len(seeds),
            "arms": summary(mine, seeds.start)["arms"],
        }


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The page."""
    lines = [
        "# Strategies on recorded landscapes",
        "",
        "Every setting of a config was run once for real; what was measured is taken "
        f"for the truth, and each race draws its own noise of {100 * NOISE:.1f} % "
        "between runs. Columns as in `search.md`.",
    ]
    for row in rows:
        lines += [
            "",
            f"## {row['config']} ({row['environment']})",
            "",
            f"`{row['landscape']}`: {row['settings']} settings, of which {row['ran']} "
            f"ran; {row['races']} races each.",
            "",
            fractions(row["arms"]),
            "",
            "Ours minus each, with 95 % bootstrap intervals over the races:",
            "",
            gaps(row["arms"]),
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Race on every recorded landscape; exit code 1 where there is none."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.search.recorded", description=__doc__
    )
    parser.add_argument("--races", type=int, default=40, help="per landscape")
    parser.add_argument("--arms", nargs="*", default=FIELD, choices=FIELD)
    parser.add_argument("--landscapes", type=Path, default=RESULTS, help="folder")
    parser.add_argument("--configs", type=Path, default=ROOT / "configs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    found = list(landscapes(options.landscapes, options.configs))
    if not found:
        print("no landscape is recorded: python -m benchmarks.on_gpu landscape CONFIG")
        return 1
    rows = list(measured(found, options.arms, range(options.races), options.jobs))
    page = markdown(rows)
    print(page)
    if options.record:
        record("search_recorded", {"landscapes": rows}, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
