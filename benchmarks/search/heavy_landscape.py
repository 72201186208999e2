"""Landscapes whose trials take one to five minutes, from fp8tune's own estimates.

Each is a config of ``configs/`` or a generated one, on the GPUs that it is for. Its
estimate is what fp8tune predicts. Its truth is that estimate with errors that the
search does not know: per cell, by a power of the batch, and per setting; eager FP8,
which has no estimate; lost speed as memory runs out; cells that do not compile. Trials
cost what the start, whole-model compile and the sampled steps take, whether or not they
run out of memory.
"""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any, NamedTuple

from benchmarks.paths import ROOT
from fp8tune.config.reader import Config
from fp8tune.job import Target
from fp8tune.runners.builtin.standin import depths
from fp8tune.runners.replay import Replay
from fp8tune.search.plan import plan_for_trials, read_config
from fp8tune.search.prior import Prior, prior_of_job
from fp8tune.search.sampler import Expected
from fp8tune.search.sampler.speed import AC_EFFECT, COMPILE_EFFECT
from fp8tune.trials.record import FULL, Record
from fp8tune.trials.runner import TrialLimits
from fp8tune.trials.space import Point, Space
from tests.support.landscape import Truth, World

ERRORS = {
    "wrong as published runs are": (0.06, 0.12),
    "wrong by 25 % per cell": (0.25, 0.25),
}
"""Errors of the estimate, standard deviations of logarithms per cell: of memory, of
speed. The published runs and the errors there are in docs/accuracy.md: peaks of one GPU
4.6 %, the worst of FSDP and TP 12.8 %; tokens/s on other clusters 11 to 13 % in the
median, most of which all cells share and a search would not notice."""
TILT, RIPPLE = 0.05, 0.01
"""The same of the power of the batch per cell, and per setting."""
UNCLEAR = 0.01
"""No setting's memory is so near the limit that the noise of its peak decides."""
BREAKS = 0.04
"""Chance that a compiled cell does not compile."""
UNROLLED_S, GROWTH = 29.0, math.log(122 / 29) / math.log(4)
"""Assumed time of Dynamo and AOTAutograd for 8 layers [s], and its growth: 29 s for 8
layers and 122 s for 32. Without sharding each layer is compiled. On a loaded CPU
``benchmarks/trial_cost.py`` measured 42 s for 8 layers, and linear growth from 2."""
KERNELS_S = (4.0, 15.0)
"""Assumed part of Inductor for blocks that share a graph [s]."""
MOE_TOKENS = 50_972
"""Tokens/s of configs/moe_9b_8xh200_bf16.toml, which has no estimate of its speed."""

TEXT = """\
# fp8tune: gpu={gpu} world-size={world}
[model]
dim = {dim}
n_layers = {layers}
n_heads = {heads}
n_kv_heads = 8
vocab_size = {vocab}
ffn_dim_multiplier = 1.3
max_seq_len = {seq}
[train]
batch_size = {batch}
seq_len = {seq}
max_steps = 1000
grad_accum_steps = {accumulated}
compile_model = true
mixed_precision = "fp8"
activation_checkpointing = "{ac}"
[optimizer]
name = "adamw"
lr = 3e-4
[scheduler]
name = "cosine"
warmup_steps = 10
"""
SIZES = ((16, 2048), (28, 3072), (32, 4096), (40, 5120))
ONE_GPU = ((8, 4096), (12, 4096), (16, 3072), (24, 2048))


class Kind(NamedTuple):
    """What a config is, and where its trials run.

    ``trial_gib``: memory of the GPU that runs the trials where that is smaller than the
    config's: a setting that does not fit there needs two shallower models besides.
    """

    name: str
    file: str = ""
    trial_gib: float = math.inf


KINDS = (
    Kind("8 layers, 1 H100", "llama3_8l_1xh100_fp8.toml"),
    Kind("7B for 16 H100", "llama3_7b_16xh100_fp8.toml"),
    Kind("7B for 1 H200, on an H100", "llama3_7b_1xh200_fp8.toml", 79.1),
    Kind("7B for 1 H200", "llama3_7b_1xh200_fp8.toml"),
    Kind("7B for 16 H100, bf16", "llama3_7b_16xh100_bf16.toml"),
    Kind("mixture of experts, 8 H200", "moe_9b_8xh200_bf16.toml"),
    Kind("generated, 1 GPU"),
    Kind("generated, 8 to 64 GPUs"),
)


class InParts(Replay):
    """Replays trials of several models: steps do not extend their deadline.

    The built-in runner gives the shallower models what is left of it.
    """

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """Return the next record of a setting, or ``hang`` if it is too late."""
        return super().run(knobs, limits._replace(stepping_s=0.0))


class Heavy(NamedTuple):
    """A landscape with heavy trials, what fp8tune predicts of it, and its runner."""

    kind: Kind
    world: World
    prior: Prior

    @property
    def runner(self) -> type[Replay]:
        """The runner that replays its trials."""
        return Replay if math.isinf(self.kind.trial_gib) else InParts


def heavy(seed: int, errors: tuple[float, float], warm: float = 1.0) -> Heavy:
    """Return the landscape of a seed; kinds take turns.

    ``errors`` are those of the estimate of memory and of speed, ``warm`` is the part of
    a compilation that a repeated setting still takes.
    """
    draw = random.Random(seed)  # noqa: S311
    kind = KINDS[seed % len(KINDS)]
    while True:
        config = _config(kind, draw)
        plan = plan_for_trials(config, (), "cuda")
        prior = prior_of_job(plan.space, config.job)
        truth = _Ground(config, plan.space, prior, kind, errors, draw).truth
        capacity = float(config.job["gpu.memory_gib"])
        most = {p: one.peak_gib * 1.05 / (FULL * capacity) for p, one in truth.items()}
        unclear = any(abs(share - 1) < UNCLEAR for share in most.values())
        mine = plan.baseline
        if truth[mine].outcome == "ok" and most[mine] <= 1 and not unclear:
            noise = math.exp(draw.uniform(math.log(0.001), math.log(0.02)))
            baseline, space = plan.baseline, Space(plan.space.knobs, truth)
            world = World(seed, space, baseline, truth, noise, capacity, warm)
            return Heavy(kind, world, prior)


def _config(kind: Kind, draw: random.Random) -> Config:
    if kind.file:
        data = (ROOT / "configs" / kind.file).read_bytes()
    else:
        data = TEXT.format(**_settings(draw, alone="1 GPU" in kind.name)).encode()
    return read_config(kind.file or "heavy.toml", data, Target())


def _settings(draw: random.Random, *, alone: bool) -> dict[str, int | str]:
    """Return a model, its GPUs, and a careful setting that someone may have written."""
    layers, dim = draw.choice(ONE_GPU if alone else SIZES)
    rows = draw.choice((8, 12, 16, 24, 32))
    batch = draw.choice([n for n in range(1, rows // 2 + 1) if rows % n == 0])
    return {
        "gpu": draw.choice(("h100", "h100", "h200")),
        "world": 1 if alone else draw.choice((8, 16, 64)),
        "dim": dim,
        "layers": layers,
        "heads": dim // 128,
        "vocab": draw.choice((32000, 128256)),
        "seq": draw.choice((2048, 4096, 8192)),
        "batch": batch,
        "accumulated": rows // batch,
        "ac": draw.choice(("full", "full", "selective")),
    }


class _Ground:
    """What the settings of one config do, drawn once.

    Cells here are AC, compile and precision.
    """

    def __init__(
        self,
        config: Config,
        space: Space,
        prior: Prior,
        kind: Kind,
        errors: tuple[float, float],
        draw: random.Random,
    ) -> None:
        self.job, self.space, self.prior, self.kind = config.job, space, prior, kind
        self.capacity = float(config.job["gpu.memory_gib"])
        self.usable = draw.uniform(0.93, 0.99)
        self.knee, self.severity = draw.uniform(0.86, 0.95), draw.uniform(0.05, 0.5)
        self.eager_fp8 = draw.uniform(0.72, 0.98)
        self.half = draw.uniform(0.1, 0.5)
        self.start_s = draw.uniform(15, 35)
        self.kernels_s = draw.uniform(*KERNELS_S)
        self.slower = draw.uniform(0.8, 1.8)
        points = list(product(*(range(len(knob.values)) for knob in space.knobs)))
        self.cells = {
            cell: (
                *(draw.gauss(0, error) for error in (*errors, TILT)),
                draw.random() < BREAKS,
            )
            for cell in dict.fromkeys(map(space.cell, points))
        }
        ripple = {point: draw.gauss(0, RIPPLE) for point in points}
        self.truth = {p: self._truth(p, math.exp(ripple[p])) for p in points}

    def _truth(self, point: Point, ripple: float) -> Truth:
        memory, speed, tilt, broken = self.cells[self.space.cell(point)]
        batch, expected = self.space.batch(point), self._expected(point)
        peak = expected.peak_gib * math.exp(memory)
        over = max(0.0, (peak / self.capacity - self.knee) / (1 - self.knee))
        tokens = expected.tokens_per_second * math.exp(speed) * batch**tilt * ripple
        tokens *= 1 - self.severity * min(1.0, over) ** 1.5
        shallow = peak > self.usable * self.kind.trial_gib
        layers = int(self.job["layers"])
        models = [layers, *(depths(layers, 1)[0] if shallow else ())]
        if shallow and self._is_too_large(point):
            del models[0]
        start_s, parts = self.start_s * len(models), sum(models) / layers
        compiled = bool(self.space.value(point, "compile"))
        compile_s = sum(map(self._compile_s, models)) if compiled else 0.0
        if broken and compiled:
            return Truth("compile", 0.0, tokens, peak, self.start_s, compile_s)
        if peak > self.usable * self.capacity:
            return Truth("oom", 0.0, tokens, peak, start_s, compile_s)
        changed = self.job.keep_tokens(self.space.values(point))
        micro_s = batch * changed["seq_len"] * changed["dp_shard"] / tokens
        accumulated = int(changed["grad_accum"])
        start_s += (parts - 1) * 8 * micro_s if shallow else 0.0
        return Truth(
            "ok", tokens, tokens, peak, start_s, compile_s, micro_s, accumulated
        )

    def _is_too_large(self, point: Point) -> bool:
        """Return whether the whole model is not tried on the smaller GPU."""
        low = self.job.keep_tokens(self.space.values(point)).find("memory.low_gib")
        return bool(low and low > self.kind.trial_gib)

    def _expected(self, point: Point) -> Expected:
        """Return what a perfect estimate says before the errors, of every setting."""
        expected, value = self.prior(point), self.space.value
        if not expected.peak_gib:  # compiled mixtures of experts: as eager
            eager = self.space.place("compile")
            assert eager is not None
            other = self.prior((*point[:eager], 0, *point[eager + 1 :]))
            expected = expected._replace(peak_gib=other.peak_gib)
        if expected.tokens_per_second:
            return expected
        bf16 = self.space.in_bf16(point)
        tokens = self.prior(bf16).tokens_per_second * self.eager_fp8 if bf16 else 0.0
        return expected._replace(
            tokens_per_second=tokens
            or MOE_TOKENS
            * math.exp(AC_EFFECT[value(point, "ac")] - AC_EFFECT["full"])
            * math.exp(0.3 * COMPILE_EFFECT[value(point, "compile")])
            * (4 + self.half)
            / 4
            / (1 + self.half / self.space.batch(point))
        )

    def _compile_s(self, layers: int) -> float:
        unrolled = self.job["dp_shard"] == 1
        graphs_s = UNROLLED_S * ((layers if unrolled else 8) / 8) ** GROWTH
        return float(self.slower * (graphs_s + self.kernels_s))
