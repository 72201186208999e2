"""Landscapes to search: throughput and memory of a config's settings, generated.

Shapes as measured runs have them: memory linear in the micro-batch with a slope per AC
mode and compile, throughput that saturates with the tokens of a GEMM, FP8 that gains
with M and costs without compile, a loss of speed as memory runs out, settings that do
not compile, noise between runs. One landscape in five is not physical at all: effects
and interactions of the knobs drawn at random.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.runners.sampling import (
    Sampling,
    Steps,
    micro_batches,
    whole_step_ms,
)
from fp8tune.search.prior import Prior
from fp8tune.search.sampler import Expected
from fp8tune.trials.record import Record
from fp8tune.trials.space import Knob, Point, Space
from tests.support.shape import CAPACITIES, Arbitrary, Shape

BATCHES = (
    (1, 2, 4, 8, 16, 32),
    (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16),
    (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    (2, 4, 8, 16),
    tuple(range(1, 25)),
)
REPEATS = 4
STEPS = 15
"""Steps of a landscape that take 5 to 60 s together."""
STEP_NOISE = 0.0015
"""Relative: between the steps of a run, as 53 published runs have it."""
ENOUGH_S = 20.0
"""Seconds of steps after which a trial makes do with the fewest: 1/60 of 20 minutes."""
WARM_COMPILE = 0.49
"""Of the time that a setting's first trial compiles, what another one takes: Qwen3 32B
on the cache of torch.compile, 14.95 s of 30.69 s (github.com/vllm-project/vllm/pull/
32191). A ResNet152 took 0.42 of it (thomasjpfan.com/2025/04/keep-warm-with-portable-
torchcompile-caches), UMA 0.19 (github.com/facebookresearch/fairchem/pull/2162)."""


class Truth(NamedTuple):
    """What a setting does without noise.

    A trial takes ``start_s`` before its steps (all of it, if it fails), and
    ``compile_s`` besides; each step accumulates so many micro-batches of ``micro_s``.
    ``would_be`` and ``peak_gib`` are speed and memory as a perfect estimate has them,
    also of what does not run.
    """

    outcome: str
    tokens_per_second: float
    would_be: float
    peak_gib: float
    start_s: float
    compile_s: float = 0.0
    micro_s: float = 0.0
    accumulated: int = 1

    @property
    def step_s(self) -> float:
        """Seconds of an optimizer step."""
        return self.micro_s * self.accumulated


class World(NamedTuple):
    """A landscape: its space, where the search starts, and the truth of each point.

    ``warm`` is the part of a compilation that a repeated setting takes.
    """

    seed: int
    space: Space
    given: Point
    truth: dict[Point, Truth]
    noise: float
    capacity_gib: float
    warm: float = WARM_COMPILE

    @property
    def optimum(self) -> float:
        """The best throughput that keeps the given precision."""
        points = self.space.points(self.given)
        return max(self.truth[point].tokens_per_second for point in points)

    def fraction(self, point: Point | None) -> float:
        """A point's throughput over the best one's."""
        if point is None or point not in self.truth:
            return 0.0
        return self.truth[point].tokens_per_second / self.optimum

    def records(self, enough_s: float = ENOUGH_S) -> Iterator[Record]:
        """A few noisy trials of every setting; the first of them compiles for longer.

        Their steps suffice by the rule of real trials, after ``enough_s`` the fewest.
        """
        draw = random.Random(self.seed * 7919 + 1)
        steps = random.Random(self.seed * 7919 + 2)
        rule = Sampling(enough_s=enough_s)
        for point, truth in self.truth.items():
            knobs = self.space.values(point)
            for repeat in range(REPEATS if truth.outcome == "ok" else 1):
                compile_s = truth.compile_s * (self.warm if repeat else 1.0)
                cost = (truth.start_s + compile_s) * draw.uniform(0.95, 1.05)
                if truth.outcome != "ok":
                    yield Record(knobs, truth.outcome, cost_s=cost)
                    continue
                noise = math.exp(draw.gauss(0, self.noise))
                peak = truth.peak_gib * math.exp(draw.gauss(0, 0.002))
                kept, seconds = _steps(truth, rule, steps)
                known = statistics.median(kept) / (1e3 * truth.step_s)
                speed = truth.tokens_per_second * noise / known
                cost += seconds
                yield Record(knobs, "ok", speed, kept, peak, peak * 1.05, cost)


def _steps(
    truth: Truth, rule: Sampling, draw: random.Random
) -> tuple[tuple[float, ...], float]:
    """Return the counted steps of a trial [ms] and how long all of them took [s]."""
    steps, ran_ms = Steps(rule), list[float]()
    while not ran_ms or not steps.suffice():
        count = micro_batches(truth.accumulated, ran_ms)
        now = [
            1e3 * truth.micro_s * math.exp(draw.gauss(0, STEP_NOISE))
            for _ in range(count)
        ]
        steps.add(math.fsum(now), whole_step_ms(now, truth.accumulated))
        ran_ms += now
    start = steps.steady().start
    return tuple(steps.whole_ms[start:]), math.fsum(ran_ms) / 1e3


def world(seed: int) -> World:
    """The landscape of a seed, on which something in FP8 runs."""
    draw = random.Random(seed)
    while True:
        knobs = _knobs(draw)
        capacity = draw.choice(CAPACITIES)
        physical = draw.random() < 0.8
        shape = Shape(draw, capacity) if physical else Arbitrary(draw, knobs)
        truth = {
            point: _truth(Space(knobs), point, shape, capacity)
            for point in Space(knobs).points((0,) * len(knobs))
        }
        frozen = tuple(k._replace(frozen=k.role == "precision") for k in knobs)
        space = Space(frozen, truth)
        given = _given(space, truth, draw)
        if given is not None:
            noise = draw.uniform(0.003, 0.01)
            return World(seed, space, given, truth, noise, capacity)


def _knobs(draw: random.Random) -> tuple[Knob, ...]:
    modes = draw.choice(
        (("none", "selective", "full"), ("none", "selective", "full"), ("none", "full"))
    )
    knobs = [
        Knob("train.batch_size", draw.choice(BATCHES), "micro_batch"),
        Knob("train.activation_checkpointing", modes, "ac"),
        Knob("train.compile_model", (False, True), "compile"),
        Knob("train.mixed_precision", ("bf16", "fp8"), "precision"),
    ]
    if draw.random() < 0.4:
        knobs.append(Knob("train.loss_fn", ("cross_entropy", "chunked_cross_entropy")))
    if draw.random() < 0.2:
        knobs.append(Knob("float8.recipe", ("tensorwise", "rowwise", "rowwise_hp")))
    return tuple(knobs)


def _given(
    space: Space, truth: dict[Point, Truth], draw: random.Random
) -> Point | None:
    """A setting that someone may have written: it runs, with a careful batch."""
    batches = len(space.knobs[0].values)
    fp8 = [
        p
        for p, t in truth.items()
        if t.outcome == "ok" and p[3] == 1 and p[0] <= batches // 2
    ]
    usual = [
        p for p in fp8 if space.values(p)["train.activation_checkpointing"] == "full"
    ]
    pool = usual if usual and draw.random() < 0.7 else fp8
    return draw.choice(sorted(pool)) if pool else None


def _truth(space: Space, point: Point, shape: Shape, capacity: float) -> Truth:
    knobs = space.values(point)
    v = {
        "batch": knobs["train.batch_size"],
        "ac": knobs["train.activation_checkpointing"],
        "compile": knobs["train.compile_model"],
        "precision": knobs["train.mixed_precision"],
        "loss": knobs.get("train.loss_fn", "cross_entropy"),
        "recipe": knobs.get("float8.recipe", "tensorwise"),
    }
    peak = shape.peak(v)
    compile_s = shape.compile_s if v["compile"] else 0.0
    speed = shape.speed(v, peak / capacity)
    if shape.breaks(v):
        return Truth("compile", 0.0, speed, peak, shape.start_s, compile_s)
    if peak > capacity * shape.usable:
        return Truth("oom", 0.0, speed, peak, shape.start_s, 0.8 * compile_s)
    steps = max(5.0, min(60.0, STEPS * v["batch"] * shape.seq / speed))
    micro_s = steps / STEPS
    return Truth("ok", speed, speed, peak, shape.start_s, compile_s, micro_s)


def estimate(world: World, error: float) -> Prior:
    """Return an estimate that is wrong by as much, in each cell by its own factor."""
    draw = random.Random(world.seed + 1)
    cells = sorted(set(map(world.space.cell, world.truth)))
    errors = {cell: (draw.gauss(0, error), draw.gauss(0, error)) for cell in cells}

    def expect(point: Point) -> Expected:
        truth, (memory, speed) = world.truth[point], errors[world.space.cell(point)]
        peak = truth.peak_gib * math.exp(memory)
        return Expected(peak, truth.would_be * math.exp(speed))

    return expect
