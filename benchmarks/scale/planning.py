"""How long planning a trial takes, by the number of trials so far.

``python -m benchmarks.scale.planning`` measures CPU time: of a sampler's proposal, and
of all else that the coordinator does, in simulated time and without a storage. NumPy
has one thread, as in a search.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from benchmarks import machine
from benchmarks.scale.many_workers import space_of
from benchmarks.scale.storage import median_and_p95_ms
from fp8tune.runners.replay import Replay
from fp8tune.search.coordinator import Event, Search
from fp8tune.search.pool import Simulated
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.space import Space
from tests.support.in_order import InOrder

WORKERS = 64
SETTINGS = 5000
SAMPLERS = {
    "auto": (25, 50, 100, 200, 500, 1000),
    "random": (200, 500, 1000),
    "tpe": (200, 500, 1000),
}
"""Samplers, and the numbers of trials after which each is measured."""
PROPOSALS = 10


def records(space: Space, count: int) -> list[Record]:
    """Return a record for each of some settings, drawn at random."""
    draw = random.Random(0)  # noqa: S311
    points = list(space.points((0,) * len(space.knobs)))
    found = []
    for point in [points[0], *draw.sample(points[1:], count - 1)]:
        knobs = space.values(point)
        batch = knobs["train.batch_size"]
        speed = 1000 * batch / (batch + 1) * draw.uniform(0.9, 1.1)
        cost = 60.0 * draw.uniform(0.7, 1.3)
        found.append(
            Record(knobs, "ok", speed, (100.0,) * 40, 20 + batch, 22 + batch, cost)
        )
    return found


def proposing_ms(sampler: str, trials: int) -> list[float]:
    """Return the CPU time of a proposal after some trials, median and p95 [ms]."""
    space = space_of(SETTINGS)
    study = Study(space)
    known = records(space, trials)
    for one in known:
        study.add("search", one)
    baseline = space.point(known[0].knobs)
    strategy = Strategy(study, baseline, None, 80.0, sampler=sampler)
    times = []
    for _ in range(PROPOSALS):
        before = time.process_time()
        strategy.propose(study.trials)
        times.append(time.process_time() - before)
    return median_and_p95_ms(times)


def coordinating_ms(trials: int, parts: int = 5) -> dict[int, float]:
    """Return the CPU time of a trial without its proposal [ms], by trials so far."""
    space, at = space_of(trials), {0: time.process_time()}
    study, known = Study(space), records(space, trials)
    points = [space.point(one.knobs) for one in known]
    strategy = InOrder(points[1:])
    pool = Simulated(study, Replay(known, space, card_gib=80.0), WORKERS)

    def take(event: Event) -> None:
        ended = len(study.trials)
        if event.trial and ended % (trials // parts) == 0:
            at[ended] = time.process_time()
        strategy.take(event)

    Search(space, points[0], pool, strategy, study, 1e7, take).run()
    ends = list(at)
    return {
        end: round(1e3 * (at[end] - at[start]) / (end - start), 1)
        for start, end in pairwise(ends)
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print, as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    options = parser.parse_args(arguments)
    proposing: dict[str, Any] = {
        sampler: {trials: proposing_ms(sampler, trials) for trials in counts}
        for sampler, counts in SAMPLERS.items()
    }
    coordinating = coordinating_ms(options.trials)
    about = machine.describe() | {"load": f"{os.getloadavg()[2]:.0f}"}
    found = {"proposal_ms": proposing, "coordinator_ms": coordinating, "about": about}
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
