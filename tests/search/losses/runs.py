"""Curves and records of comparisons as the tests read them."""

import random

from fp8tune.search.losses.compare import LossCurve
from fp8tune.search.losses.loss_runs import FIRST_SEED
from fp8tune.trials.record import LossRun
from tests.search.tries import BEST, BEST_BF16, SPACE, ran

STEPS, WARMUP = 32, 8


def falling(steps=STEPS, by=0.0, seed=0, noise=0.001):
    """Losses that fall from 6 to 3, shifted by a share, with a little noise."""
    draw = random.Random(seed)
    return tuple(
        (6 - 3 * step / (steps - 1)) * (1 + by + draw.gauss(0, noise))
        for step in range(steps)
    )


def calm(steps=STEPS, seed=0):
    """Gradient norms without a spike."""
    draw = random.Random(f"norms {seed}")
    return tuple(1 + draw.gauss(0, 0.05) for _ in range(steps))


def course(seed=FIRST_SEED, warmup=WARMUP, steps=STEPS, given=WARMUP, free=False):
    return LossRun(seed, warmup, steps, given, free)


def curve(precision="bf16", by=0.0, nan=False, norms=None, **how):
    """A run; one that ends in NaN has half of its steps."""
    made = course(**how)
    number = made.seed * 10 + (precision == "fp8")
    losses = falling(made.steps, by, number)
    norms = calm(made.steps, number) if norms is None else norms
    kept = made.steps // 2 if nan else made.steps
    return LossCurve(precision, made, losses[:kept], norms[:kept], nan)


def climbing(run, at=20, by=0.06):
    """The same run, but from a step on its loss rises."""
    risen = (run.losses[at] + by * n for n in range(len(run.losses) - at))
    return run._replace(losses=(*run.losses[:at], *risen))


SPREAD = (0.0, 0.002, -0.002, 0.001, -0.001, 0.0015)
"""How bf16 seeds differ."""


def seeds(precision="bf16", by=0.0, count=3, **how):
    """Runs of several seeds, FP8's worse than bf16's by a share."""
    return [
        curve(precision, SPREAD[n] + by, seed=FIRST_SEED + n, **how)
        for n in range(count)
    ]


def pairs(by=0.0, count=3, **how):
    """FP8 and bf16 on the same seeds."""
    both = seeds("fp8", by, count, **how), seeds("bf16", 0.0, count, **how)
    return list(zip(*both, strict=True))


def learned(made, point=None, space=SPACE, cost_s=10.0):
    """The record that a run leaves."""
    precision = made.precision == "fp8"
    point = point or (BEST if precision else BEST_BF16)
    more = {
        "loss_run": made.loss_run._asdict(),
        "losses": list(made.losses),
        "grad_norms": list(made.grad_norms),
        "tokens_per_step": 1024,
    }
    outcome = "nan" if made.nan else "ok"
    return ran(point, 50, outcome, space, cost_s=cost_s, more=more)
