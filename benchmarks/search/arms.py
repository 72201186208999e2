"""The strategies that race: ours and what people do without it.

Each proposes one trial after the other from the trials so far, the given config
first. ``None`` ends it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from benchmarks.search.landscape import World
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point

Ask = Callable[[Point], Record]
"""Runs a trial."""
Arm = Callable[[World, Ask], None]
"""Runs trials until it has enough, or time is up."""


class Climb(NamedTuple):
    """The best micro-batch of a cell, and its tokens/s; 0 where none ran."""

    point: Point
    speed: float


def random_order(world: World, ask: Ask) -> None:
    """Every setting once, in random order."""
    points = sorted(world.space.points(world.given))
    random.Random(world.seed).shuffle(points)  # noqa: S311
    ask(world.given)
    for point in points:
        if point != world.given:
            ask(point)


def doubling(world: World, ask: Ask) -> None:
    """A careful person: double the batch, bisect, then try the other knobs in turn.

    Each other value is tried at the best batch, and where it is faster, or does not
    fit, the batch is found anew for it.
    """
    best = _climb(world, ask, world.given)
    for place, knob in enumerate(world.space.knobs):
        if knob.frozen or knob.role == "micro_batch":
            continue
        for index in range(len(knob.values)):
            if index != best.point[place]:
                other = _with(best.point, place, index)
                found = _climb(world, ask, other)
                best = max(best, found, key=lambda climb: climb.speed)


def _climb(world: World, ask: Ask, start: Point) -> Climb:
    """Double the batch from a point until it is slower or fails, then bisect."""
    place = world.space.place("micro_batch")
    assert place is not None
    batches = world.space.knobs[place].values
    low, speed = start[place], ask(start).tokens_per_second
    while not speed and low > 0:
        low = low // 2
        speed = ask(_with(start, place, low)).tokens_per_second
    high = len(batches)
    while True:
        twice = [i for i in range(low + 1, high) if batches[i] >= 2 * batches[low]]
        if not twice:
            break
        found = ask(_with(start, place, twice[0])).tokens_per_second
        if found <= speed:
            high = twice[0]
            break
        low, speed = twice[0], found
    while high - low > 1:
        middle = (low + high) // 2
        found = ask(_with(start, place, middle)).tokens_per_second
        low, high, speed = (
            (middle, high, found) if found > speed else (low, middle, speed)
        )
    return Climb(_with(start, place, low), speed)


def deepspeed(world: World, ask: Ask) -> None:
    """DeepSpeed's rule (autotuning/autotuner.py, model-free): micro-batches, then grid.

    Per setting of the other knobs, the given one first: the largest batch that runs,
    by bisection, then three batches spread up to it; an end after five trials in a row
    without a gain, 50 trials at most. Its estimate of activations from a profile is
    left out: the bisection stands for it.
    """
    tries = _Patience(ask, 5, 50)
    cells = sorted(
        {world.space.cell(p): p for p in world.space.points(world.given)}.values(),
        key=lambda p: world.space.cell(p) != world.space.cell(world.given),
    )
    tries.ask(world.given)
    for point in cells:
        for trial in _three(world, tries, point):
            tries.ask(trial)
        if tries.ended:
            return


class _Patience:
    """Counts trials, and those since the last gain."""

    def __init__(self, ask: Ask, patience: int, most: int) -> None:
        self._ask, self._patience, self._most = ask, patience, most
        self._best, self._since, self._count = 0.0, 0, 0

    @property
    def ended(self) -> bool:
        return self._since >= self._patience or self._count >= self._most

    def ask(self, point: Point) -> float:
        speed = self._ask(point).tokens_per_second
        self._count += 1
        self._since = 0 if speed > self._best else self._since + 1
        self._best = max(self._best, speed)
        return speed

    def probe(self, point: Point) -> bool:
        """Whether a setting runs, which counts as a trial but not as no gain."""
        self._count += 1
        return self._ask(point).ok


def _three(world: World, tries: _Patience, cell: Point) -> Iterator[Point]:
    place = world.space.place("micro_batch")
    assert place is not None
    low, high = -1, len(world.space.knobs[place].values)
    while high - low > 1:
        middle = (low + high) // 2
        runs = tries.probe(_with(cell, place, middle))
        low, high = (middle, high) if runs else (low, middle)
    spread = sorted({low, low * 2 // 3, low // 3}, reverse=True) if low >= 0 else []
    yield from (_with(cell, place, index) for index in spread[1:])


def _with(point: Point, place: int, index: int) -> Point:
    return (*point[:place], index, *point[place + 1 :])


def best_measured(world: World, trials: Sequence[tuple[Point, Record]]) -> Point | None:
    """The setting that looked fastest, of those that may be chosen."""
    speeds = [
        (record.tokens_per_second, point)
        for point, record in trials
        if record.ok and world.space.allows(point, world.given)
    ]
    return max(speeds)[1] if speeds else None
