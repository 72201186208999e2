"""What a setting costs and gains on a landscape: memory, step time, what breaks."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

from fp8tune.trials.space import Knob

CAPACITIES = (79.1, 79.1, 93.1, 139.8, 139.8)


class Shape:
    """Memory and step time from a model's size, as roofline models have them."""

    def __init__(self, draw: random.Random, capacity: float) -> None:
        self.draw = draw
        layers, width = draw.choice(((16, 2048), (28, 3072), (32, 4096), (40, 5120)))
        self.seq = draw.choice((2048, 4096, 8192))
        self.params = 12.5 * layers * width**2
        shards = draw.choice((1, 8, 16, 64))
        state = self.params * 16 / shards / 2**30
        self.state = min(state, capacity * draw.uniform(0.2, 0.5)) + draw.uniform(2, 6)
        block = 2.0 * width * layers * self.seq / 2**30
        logits = (
            draw.choice((6, 8, 12)) * draw.choice((32000, 128256)) * self.seq / 2**30
        )
        self.logits = logits
        selective = draw.uniform(3, 12)
        none = selective * draw.uniform(1.2, 2.5)
        self.slope = {
            "full": block * 1.1,
            "selective": block * selective,
            "none": block * none,
        }
        self.compiled_memory = draw.uniform(0.85, 0.99)
        self.fp8_memory = draw.uniform(0.97, 1.06)
        self.fixed_ms = draw.uniform(5, 120) * draw.choice((0.3, 1))
        self.half_m = draw.uniform(200, 3000)
        self.fp8_max = draw.uniform(1.15, 1.55)
        self.fp8_half = draw.uniform(300, 4000) * (4096 / width)
        self.eager_fp8 = draw.uniform(0.72, 0.98)
        self.compiled = draw.uniform(1.05, 1.35)
        self.recompute = {
            "full": draw.uniform(1.2, 1.34),
            "selective": draw.uniform(1.02, 1.12),
            "none": 1.0,
        }
        self.knee = draw.uniform(0.86, 0.95)
        self.severity = draw.choice((0.05, 0.2, 0.5, 0.8))
        self.usable = draw.uniform(0.93, 0.99)
        self.ripple = draw.uniform(0.0, 0.015)
        self.chunk = draw.uniform(0.96, 1.01)
        self.recipe = {
            "tensorwise": 1.0,
            "rowwise": draw.uniform(0.88, 1.0),
            "rowwise_hp": draw.uniform(0.8, 0.97),
        }
        self.broken = {
            cell: draw.random() < 0.06
            for cell in itertools.product(
                ("none", "selective", "full"), (True,), ("bf16", "fp8")
            )
        }
        self.start_s = draw.uniform(15, 35)
        self.compile_s = draw.uniform(35, 90)
        self.wave = random.Random(draw.random())

    def peak(self, v: dict[str, Any]) -> float:
        """Peak allocated memory [GiB]."""
        each = self.slope[v["ac"]] * (self.compiled_memory if v["compile"] else 1.0)
        loss = self.logits * (0.2 if v["loss"].startswith("chunked") else 1.0)
        each *= self.fp8_memory if v["precision"] == "fp8" else 1.0
        return float(self.state + v["batch"] * (each + loss))

    def speed(self, v: dict[str, Any], used: float) -> float:
        """Tokens/s over all GPUs; ``used`` is the share of memory in use."""
        tokens = v["batch"] * self.seq
        flops = 6 * self.params * self.recompute[v["ac"]]
        rate = 450e12 * tokens / (tokens + self.half_m)
        rate *= self.compiled if v["compile"] else 1.0
        if v["precision"] == "fp8":
            rate *= self.fp8_max * (tokens / (tokens + self.fp8_half))
            rate *= (1.0 if v["compile"] else self.eager_fp8) * self.recipe[v["recipe"]]
        rate *= self.chunk if v["loss"].startswith("chunked") else 1.0
        seconds = self.fixed_ms / 1000 + tokens * flops / rate
        over = max(0.0, (used - self.knee) / (1 - self.knee))
        slow = 1 - self.severity * min(1.0, over) ** 1.5
        waves = math.exp(self.wave.gauss(0, self.ripple))
        return float(tokens / seconds * slow * waves)

    def breaks(self, v: dict[str, Any]) -> bool:
        """Whether the compiler gives up on it."""
        return self.broken.get((v["ac"], v["compile"], v["precision"]), False)


class Arbitrary(Shape):
    """The same memory, but speed from random effects and interactions."""

    def __init__(self, draw: random.Random, knobs: tuple[Knob, ...]) -> None:
        super().__init__(draw, draw.choice(CAPACITIES))
        roles = ("batch", "ac", "compile", "precision", "loss", "recipe")
        self.single = {r: draw.uniform(0.03, 0.25) for r in roles}
        self.pair = draw.uniform(0.01, 0.06)
        self.rise = draw.uniform(0.1, 0.5)
        self.peak_at = draw.uniform(0.4, 1.3)
        self.largest = max(knobs[0].values)
        self.salts: tuple[tuple[float, float], ...] = ((1.0, draw.random()),)

    def _effect(self, *what: Any) -> float:
        draws = ((w, random.Random(repr((salt, *what)))) for w, salt in self.salts)
        return sum(weight * draw.gauss(0, 1) for weight, draw in draws)

    def speed(self, v: dict[str, Any], used: float) -> float:
        """Tokens/s from effects that nobody could foresee."""
        x = math.log1p(v["batch"]) / math.log1p(self.largest)
        total = 10.0 - self.rise * 4 * (x - self.peak_at) ** 2
        rest = [(role, v[role]) for role in self.single if role != "batch"]
        total += sum(self.single[role] * self._effect(role, x) for role, x in rest)
        for a, b in itertools.combinations(rest, 2):
            total += self.pair * self._effect(a, b)
        total += sum(self.pair * self._effect(a) * (x - 0.5) for a in rest)
        return math.exp(total + self.wave.gauss(0, self.ripple))
