"""Landscapes of micro-batch, AC, compile, precision, FP8 recipe, filter and all-gather.

A model of the step gives speeds: its linears by their shapes and the published gains of
FP8 (``fp8tune/facts/gemm_speed.py``), attention, the rest, and communication. The
estimate that a search has is that model with typical values. The truth has other values
and errors that the search does not know. Some settings are wrong: they run out of
memory, do not compile, crash, hang, give NaN, run in bf16 although FP8 is asked, or
their losses leave bf16's. Nothing here is a claim about the speed of a GPU.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from itertools import product
from typing import Any, NamedTuple

from benchmarks.paths import RESULTS
from benchmarks.search.place import NO_FP8, Place, Train
from benchmarks.search.seed_worlds import BESIDE, WARMUP, Case, generated
from fp8tune.facts.gemm_speed import CEILING, rowwise, tensorwise
from fp8tune.search.losses.compare import LossVerdict
from fp8tune.search.losses.findings import loss_key
from fp8tune.search.losses.loss_runs import MAX_STEPS, Conditions
from fp8tune.search.real_trials import ENOUGH_S
from fp8tune.search.sampler import Expected
from fp8tune.trials.record import Record
from fp8tune.trials.space import Knob, Point, Space
from tests.support.landscape import Truth, World

BATCH, AC = "train.batch_size", "train.activation_checkpointing"
COMPILE, PRECISION = "train.compile_model", "train.mixed_precision"
RECIPE, ALL_GATHER = "fp8_recipe", "fp8_all_gather"
SMALL, HEAD = "auto_filter", "fp8_converts_head"
RECIPES = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
MODELS = (
    (16, 2048, 512, 8192, 128_256),
    (28, 3072, 1024, 8192, 128_256),
    (32, 4096, 1024, 14_336, 128_256),
    (40, 5120, 5120, 13_824, 32_000),
)
"""Layers, hidden size, size of keys and values, feed-forward size and vocabulary of
Llama 3.2 1B and 3B, 3.1 8B, and Llama 2 13B."""
GPUS_GIB = (79.1, 79.1, 139.8)
BEST_BF16 = 794.5e12
"""Best bf16 matmul of an H100 and an H200 [FLOP/s] (github.com/stas00/ml-engineering,
744d01e, compute/accelerator/README.md)."""
BANDWIDTH = 3.35e12
"""Memory of an H100 [bytes/s] (NVIDIA's data sheet)."""

MEMORY_ERROR, SPEED_ERROR = 0.06, 0.12
"""Errors of the estimate, standard deviations of logarithms per cell. The published
runs and the errors there are in docs/accuracy.md: peaks of one GPU 4.6 %, the worst of
FSDP and TP 12.8 %; tokens/s on other clusters 11 to 13 % in the median, most of which
all cells share and a search would not notice."""
TILT, RIPPLE = 0.05, 0.01
"""The same of the power of the batch per cell, and per setting."""
BREAKS = 0.04
"""Assumed chance that a compiled cell does not compile."""
CRASHES, NANS, SILENT, HANGS = 0.07, 0.05, 0.04, 0.01
"""Assumed chances that a recipe crashes, gives NaN in a trial, or runs in bf16 without
a word, and that a compiled cell hangs. Nobody has counted them; of about 65 public
threads on FP8 training of 2025 and 2026, 12 were on NaN or divergence and 9 on bf16
without a word."""
DIVERGES, WORSE = 0.06, 0.06
"""Assumed chances that the losses of a recipe diverge, or end 8 standard deviations of
bf16's seeds worse; twice that with the head in FP8, for each choice of linears."""
SPREAD, GAP = 0.005, 8.0
"""Of the loss between seeds (relative), and how many of these FP8 then ends worse."""


class Model(NamedTuple):
    """A model, its sequences, and the GPUs it is for."""

    layers: int
    dim: int
    kv: int
    ffn: int
    vocab: int
    seq: int
    shards: int
    rows: int
    gpu_gib: float

    @property
    def linears(self) -> Mapping[str, tuple[int, int, int]]:
        """K, N and the number of the linears of each name."""
        each, layers = self.dim, self.layers
        return {
            "wq": (each, each, layers),
            "wk": (each, self.kv, layers),
            "wv": (each, self.kv, layers),
            "wo": (each, each, layers),
            "w1": (each, self.ffn, layers),
            "w3": (each, self.ffn, layers),
            "w2": (self.ffn, each, layers),
            "output": (each, self.vocab, 1),
        }

    @property
    def params(self) -> float:
        """The number of parameters, with the embeddings."""
        linear = sum(k * n * count for k, n, count in self.linears.values())
        return linear + self.dim * self.vocab

    @property
    def state_gib(self) -> float:
        """Weights, gradients and AdamW's state in fp32, sharded [GiB]."""
        return 16 * self.params / self.shards / 2**30


class Physics(NamedTuple):
    """What the model of the step assumes; its defaults are what the estimate assumes.

    ``linear`` is the share of the best matmul that linears reach, ``half`` the tokens
    with half of that. ``attention`` likewise. ``bytes`` counts what else moves per
    token, layer and hidden size, and ``fused`` the share of it left by compile.
    ``full`` and ``selective`` are what AC adds to the time. ``exposed`` is the share of
    communication that computation does not hide, ``link`` its bandwidth [bytes/s].
    ``gathered`` is what the FP8 all-gather leaves of it. ``eager`` is the speed of
    FP8 without compile over bf16's. From ``knee`` of the memory on, a step slows down
    by up to ``severity``. Memory: bytes per token and layer over the hidden size by
    AC, bytes of the loss per token and entry of the vocabulary, and GiB besides.
    """

    linear: float = 0.75
    half: float = 600.0
    attention: float = 0.45
    bytes: float = 130.0
    fused: float = 0.6
    full: float = 0.28
    selective: float = 0.06
    exposed: float = 0.25
    link: float = 2e11
    gathered: float = 0.75
    eager: float = 0.85
    knee: float = 0.9
    severity: float = 0.2
    none_bytes: float = 34.0
    selective_bytes: float = 14.0
    full_bytes: float = 2.2
    loss_bytes: float = 10.0
    other_gib: float = 3.0


RANGES = {
    "linear": (0.65, 0.88),
    "half": (200.0, 1500.0),
    "attention": (0.3, 0.6),
    "bytes": (90.0, 180.0),
    "fused": (0.4, 0.8),
    "full": (0.22, 0.33),
    "selective": (0.02, 0.10),
    "exposed": (0.05, 0.6),
    "link": (0.5e11, 3.5e11),
    "gathered": (0.55, 0.95),
    "eager": (0.72, 0.98),
    "knee": (0.86, 0.95),
    "severity": (0.05, 0.5),
    "none_bytes": (30.0, 38.0),
    "selective_bytes": (9.0, 20.0),
    "full_bytes": (2.0, 2.6),
    "loss_bytes": (6.0, 18.0),
    "other_gib": (1.5, 5.0),
}
"""Ranges of the truth. AC costs are published (full 22 to 33 % of time, selective 2 to
10 %: Megatron, Moonlight), as are bytes of the loss (6 compiled, 12 torchtitan, 18
Hugging Face); eager FP8 is what other landscapes here take. The others are assumed."""


def drawn(draw: random.Random) -> Physics:
    """Return the physics of a landscape."""
    return Physics(**{name: draw.uniform(*ends) for name, ends in RANGES.items()})


def auto_filtered(recipe: str, k: int, n: int) -> bool:
    """Return whether torchao's rule keeps a linear in bf16.

    ``_auto_filter_for_recipe`` of torchao 0.18.0; it has none for the third recipe.
    """
    if recipe == "tensorwise":
        return n <= 1024 and k <= 4096
    return n <= 2048 or k <= 1024 or (n <= 4096 and k <= 2048)


def stays_in_bf16(v: Mapping[str, Any], name: str, k: int, n: int) -> bool:
    """Return whether a setting keeps a linear in bf16."""
    if v[PRECISION] != "fp8":
        return True
    if name == "output":
        return not v[HEAD]
    return bool(v[SMALL]) and auto_filtered(v[RECIPE], k, n)


@cache
def _gain(recipe: str, m: int, k: int, n: int) -> float:
    """Return the speed of an FP8 linear relative to bf16, as published.

    The third recipe has its weight gradient in bf16: a third of the time.
    """
    if recipe == "tensorwise":
        return tensorwise(m, k, n)
    if recipe == "rowwise":
        return rowwise(m, k, n)
    return 3 / (2 / rowwise(m, k, n) + 1)


def speed(model: Model, physics: Physics, v: Mapping[str, Any], share: float) -> float:
    """Return tokens/s of one GPU; ``share`` of its memory is in use."""
    tokens = float(v[BATCH] * model.seq)
    is_fp8, eager = v[PRECISION] == "fp8", not v[COMPILE]
    linears = 0.0
    for name, (k, n, count) in model.linears.items():
        bf16 = stays_in_bf16(v, name, k, n) or eager
        gain = 1.0 if bf16 else min(CEILING, _gain(v[RECIPE], tokens, k, n))
        linears += 6.0 * tokens * k * n * count / gain
    rate = BEST_BF16 * physics.linear * tokens / (tokens + physics.half)
    attention = 7.0 * tokens * model.seq * model.dim * model.layers
    moved = physics.bytes * tokens * model.dim * model.layers
    moved *= 1.0 if eager else physics.fused
    work = linears / rate + attention / (BEST_BF16 * physics.attention)
    work += moved / BANDWIDTH
    work *= 1 + {"full": physics.full, "selective": physics.selective}.get(v[AC], 0.0)
    if is_fp8 and eager:
        work /= physics.eager
    sent = (0.0 if model.shards == 1 else 8.0) * model.params / physics.link
    sent *= physics.exposed * (physics.gathered if is_fp8 and v[ALL_GATHER] else 1.0)
    over = max(0.0, (share - physics.knee) / (1 - physics.knee))
    slow = 1 - physics.severity * min(1.0, over) ** 1.5
    return float(tokens / (work + sent) * slow)


def peak(model: Model, physics: Physics, v: Mapping[str, Any]) -> float:
    """Return the peak memory of one GPU [GiB]."""
    kept = {
        "none": physics.none_bytes,
        "selective": physics.selective_bytes,
        "full": physics.full_bytes,
    }
    each = kept[v[AC]] * model.dim * model.layers * (0.93 if v[COMPILE] else 1.0)
    each += physics.loss_bytes * model.vocab
    tokens = float(v[BATCH] * model.seq)
    return model.state_gib + physics.other_gib + tokens * each / 2**30


class Costs(NamedTuple):
    """What trials cost besides their steps: start, compile by precision [s], repeats.

    ``warm`` is the part of a compilation that a repeated setting takes.
    """

    start_s: float
    compile_s: Mapping[str, float]
    warm: float


@cache
def _measured() -> dict[str, dict[str, float]]:
    text = (RESULTS / "trial_cost.json").read_text(encoding="utf-8")
    cases: dict[str, dict[str, float]] = json.loads(text)["cases"]
    return cases


def costs(draw: random.Random) -> Costs:
    """Return costs of trials that ran (``results/trial_cost.md``)."""
    cases = _measured()
    firsts = {
        name.removesuffix(", first"): case
        for name, case in cases.items()
        if name.endswith(", first")
    }
    chosen = {
        precision: draw.choice([n for n in firsts if n.startswith(precision)])
        for precision in ("bf16", "fp8")
    }
    start = firsts[chosen["fp8"]]
    compile_s = {name: firsts[case]["compile_s"] for name, case in chosen.items()}
    again = cases[f"{chosen['fp8']}, again"]["compile_s"]
    warm = again / compile_s["fp8"]
    return Costs(start["import_s"] + start["build_s"], compile_s, warm)


class Ground:
    """A landscape, drawn once from its seed."""

    def __init__(self, seed: int, draw: random.Random) -> None:
        self.seed = seed
        self.model = _model(draw)
        self.truth_of = drawn(draw)
        self.costs = costs(draw)
        self.space = Space(_knobs(self.model), self._existing(_knobs(self.model)))
        self.usable = draw.uniform(0.93, 0.99)
        self.errors = {
            cell: tuple(
                draw.gauss(0, error) for error in (MEMORY_ERROR, SPEED_ERROR, TILT)
            )
            for cell in product(self._values(AC), (False, True), ("bf16", *RECIPES))
        }
        self.broken = {cell for cell in self.errors if draw.random() < BREAKS}
        self.hanging = {cell for cell in self.errors if draw.random() < HANGS}
        self.crashing = {recipe for recipe in RECIPES if draw.random() < CRASHES}
        self.nan = {recipe for recipe in RECIPES if draw.random() < NANS}
        self.silent = {recipe for recipe in RECIPES if draw.random() < SILENT}
        self.learns = {
            key: _case(draw, 2 if key[1] else 1)
            for key in product(RECIPES, (False, True), (False, True))
        }
        self.draw = draw

    def _values(self, key: str) -> tuple[Any, ...]:
        return next(knob.values for knob in self.space.knobs if knob.key == key)

    @staticmethod
    def _existing(knobs: tuple[Knob, ...]) -> Iterator[Point]:
        """Yield the settings that the trainer does not refuse, as lint tells.

        torchao has no rule of small linears for the third recipe, and gathers in FP8
        with the first alone. In bf16 FP8's knobs have their first values.
        """
        space = Space(knobs)
        for point in space.points((0,) * len(knobs)):
            v = space.params(point)
            gathers = v[ALL_GATHER] and v[RECIPE] != "tensorwise"
            unruled = v[SMALL] and v[RECIPE] == RECIPES[-1]
            is_same = point == space.in_precision(point, v[PRECISION])
            if is_same and not gathers and not unruled:
                yield point

    def _cell(self, v: Mapping[str, Any]) -> tuple[Any, ...]:
        kind = v[RECIPE] if v[PRECISION] == "fp8" else "bf16"
        return v[AC], v[COMPILE], kind

    @cached_property
    def truth(self) -> dict[Point, Truth]:
        """What each setting does."""
        return {p: self._truth(self.space.params(p)) for p in sorted(self.space.only)}

    def _truth(self, v: Mapping[str, Any]) -> Truth:
        is_fp8 = v[PRECISION] == "fp8"
        if is_fp8 and v[RECIPE] in self.silent:
            v = {**v, PRECISION: "bf16"}
        memory, other, tilt = self.errors[self._cell(v)]
        gib = peak(self.model, self.truth_of, v) * math.exp(memory)
        tokens = speed(self.model, self.truth_of, v, gib / self.model.gpu_gib)
        ripple = self.draw.gauss(0, RIPPLE)
        tokens *= math.exp(other + ripple) * v[BATCH] ** tilt
        start_s = self.costs.start_s
        compile_s = self.costs.compile_s[v[PRECISION]] if v[COMPILE] else 0.0
        outcome = self._outcome(v, gib, is_fp8=is_fp8)
        micro_s = v[BATCH] * self.model.seq / tokens
        accumulated = max(1, round(self.model.rows / v[BATCH]))
        if outcome == "ok":
            return Truth(
                "ok", tokens, tokens, gib, start_s, compile_s, micro_s, accumulated
            )
        if outcome == "nan":  # seen at the end of its steps
            start_s += min(ENOUGH_S, 10 * micro_s * accumulated)
        if outcome == "hang":
            start_s = math.inf
        return Truth(outcome, 0.0, tokens, gib, start_s, compile_s)

    def _outcome(self, v: Mapping[str, Any], gib: float, *, is_fp8: bool) -> str:
        """Return how a trial of a setting ends."""
        cell = self._cell(v)
        if is_fp8 and v[RECIPE] in self.crashing:
            return "user"
        if v[COMPILE] and cell in self.broken:
            return "compile"
        if v[COMPILE] and cell in self.hanging:
            return "hang"
        if gib > self.usable * self.model.gpu_gib:
            return "oom"
        return "nan" if is_fp8 and v[RECIPE] in self.nan else "ok"

    def prior(self, point: Point) -> Expected:
        """Return the estimate of a setting; that of FP8 without compile is unknown."""
        v, typical = self.space.params(point), Physics()
        gib = peak(self.model, typical, v)
        if v[PRECISION] == "fp8" and not v[COMPILE]:
            return Expected(gib)
        return Expected(gib, speed(self.model, typical, v, gib / self.model.gpu_gib))

    @cached_property
    def wrong(self) -> dict[Point, str]:
        """Why settings that run must not be chosen."""
        found = {}
        for point in self.space.only:
            v = self.space.params(point)
            if v[PRECISION] != "fp8":
                continue
            if v[RECIPE] in self.silent:
                found[point] = NO_FP8
            elif verdict := self.learns[v[RECIPE], v[HEAD], v[SMALL]].right:
                if verdict != LossVerdict.INSIDE:
                    found[point] = f"losses: {verdict}"
            else:
                found[point] = f"losses: {LossVerdict.OUTSIDE}"
        return found

    @cached_property
    def trains(self) -> dict[Point, Train]:
        """What FP8 and bf16 learn, by the part of a setting that changes that."""
        levels: dict[int, float] = {}
        found: dict[Point, Train] = {}
        for point in sorted(self.space.only):
            v, key = self.space.params(point), loss_key(self.space, point)
            if v[PRECISION] == "fp8" and key not in found:
                draw = random.Random(f"{self.seed} {key}")  # noqa: S311
                case = self.learns[v[RECIPE], v[HEAD], v[SMALL]]
                found[key] = generated(case, draw, levels, MAX_STEPS)
        return found


def _case(draw: random.Random, times: int) -> Case:
    """Return how FP8 learns with a recipe; it goes wrong so many times as often."""
    kind = draw.random() / times
    if kind < DIVERGES:
        return Case("diverges", SPREAD, diverges=1.0)
    gap = GAP if kind < DIVERGES + WORSE else 0.0
    return Case("", SPREAD, gap, apart=BESIDE)


def _model(draw: random.Random) -> Model:
    """Return a model whose state leaves half of the GPU for activations."""
    while True:
        gpu_gib = draw.choice(GPUS_GIB)
        seq, shards = draw.choice((2048, 4096, 8192)), draw.choice((1, 8, 8, 64))
        rows = draw.choice((8, 12, 16, 24, 32))
        model = Model(*draw.choice(MODELS), seq, shards, rows, gpu_gib)
        if model.state_gib < 0.5 * gpu_gib:
            return model


def _knobs(model: Model) -> tuple[Knob, ...]:
    rows = range(1, model.rows + 1)
    batches = tuple(n for n in rows if model.rows % n == 0)
    gathers = (False, True) if model.shards > 1 else (False,)
    return (
        Knob(BATCH, batches, "micro_batch"),
        Knob(AC, ("none", "selective", "full"), "ac"),
        Knob(COMPILE, (False, True), "compile"),
        Knob(PRECISION, ("bf16", "fp8"), "precision"),
        Knob(RECIPE, RECIPES, RECIPE),
        Knob(ALL_GATHER, gathers, ALL_GATHER),
        Knob(SMALL, (False, True), SMALL),
        Knob(HEAD, (False, True), HEAD),
    )


def landscape(seed: int) -> Place:
    """Return the landscape of a seed, on which the given config runs and is correct."""
    draw = random.Random(seed)  # noqa: S311
    while True:
        ground = Ground(seed, draw)
        given = _given(ground, draw)
        if given is None:
            continue
        noise = math.exp(draw.uniform(math.log(0.001), math.log(0.01)))
        world = World(
            seed,
            ground.space,
            given,
            ground.truth,
            noise,
            ground.model.gpu_gib,
            ground.costs.warm,
        )
        return _place(ground, world)


def _given(ground: Ground, draw: random.Random) -> Point | None:
    """Return a careful setting that someone may have written, in bf16 or FP8."""
    precision = draw.choice(("bf16", "fp8"))
    usual = {RECIPE: RECIPES[0], ALL_GATHER: False, SMALL: False, HEAD: False}
    mode = draw.choice(("full", "full", "selective"))
    compiled = draw.random() < 0.5
    asked = {PRECISION: precision, AC: mode, COMPILE: compiled, **usual}
    space, limit = ground.space, 0.6 * ground.model.gpu_gib
    possible = [
        point
        for point, truth in sorted(ground.truth.items())
        if truth.outcome == "ok"
        and point not in ground.wrong
        and truth.peak_gib < limit
        and asked.items() <= space.params(point).items()
    ]
    return draw.choice(possible) if possible else None


def _place(ground: Ground, world: World) -> Place:
    space = ground.space
    records: dict[Point, list[Record]] = {}
    for record in world.records():
        point = space.point(record.knobs)
        is_fp8 = space.value(point, "precision") == "fp8"
        ran = is_fp8 and ground.wrong.get(point) != NO_FP8
        records.setdefault(point, []).append(
            record._replace(
                import_s=ground.costs.start_s,
                capacity_gib=ground.model.gpu_gib,
                float8_matmuls=1000 if ran else 0,
            )
        )
    speeds = {
        point: truth.tokens_per_second
        for point, truth in ground.truth.items()
        if truth.outcome == "ok"
    }
    return Place(
        name=str(world.seed),
        space=space,
        given=world.given,
        records=records,
        speeds=speeds,
        wrong=ground.wrong,
        capacity_gib=ground.model.gpu_gib,
        prior=ground.prior,
        trains=ground.trains,
        conditions=lambda can_run: Conditions(WARMUP, can_run=can_run),
    )
