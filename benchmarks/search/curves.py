"""Losses and gradient norms of many seeds in bf16 and FP8, from real training here.

The rehearsal's model on the CPU, in one process, as the stability stage trains it. The
same for a learning rate at which it diverges.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.paths import RESULTS, ROOT
from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.builtin.spec import Spec
from fp8tune.search.plan import read_config

CONFIG = ROOT / "configs" / "rehearsal_cpu.toml"
CURVES = RESULTS / "seed_curves.jsonl"
STEPS, SEEDS, WILD_SEEDS = 24, 16, 6
WILD = 300.0
"""How many times the config's learning rate the diverging runs have."""
KNOBS = {
    "train.batch_size": 8,
    "train.grad_accum_steps": 1,
    "train.activation_checkpointing": "none",
}


def spec(precision: str, seed: int, times: float) -> Spec:
    """The rehearsal's model in a precision, at so many times its learning rate."""
    config = read_config(str(CONFIG), CONFIG.read_bytes(), Target("", 1))
    runner = Builtin(config.trainer, config.loaded, config.job.target, Setup("cpu"))
    made = runner.spec({**KNOBS, "train.mixed_precision": precision})
    rates = [rate * times for rate in made.learning_rates]
    return made._replace(seed=seed, steps=STEPS, learning_rates=rates)


def trained(made: Spec) -> dict[str, list[float]]:
    """The series of a run, up to the first step that is not finite."""
    from fp8tune.runners.builtin.convert import build
    from fp8tune.runners.builtin.data import batches
    from fp8tune.runners.builtin.step import Training

    model, _ = build(made)
    training = Training(model, made, batches(made))
    losses, norms = [], []
    for _ in range(made.steps):
        step = training.step()
        if not (math.isfinite(step.loss) and math.isfinite(step.grad_norm)):
            break
        losses.append(round(step.loss, 5))
        norms.append(round(step.grad_norm, 5))
    return {"losses": losses, "grad_norms": norms}


def every() -> Iterator[dict[str, Any]]:
    """Yield all runs, one after the other."""
    for times, count in ((1.0, SEEDS), (WILD, WILD_SEEDS)):
        for seed in range(count):
            for precision in ("bf16", "fp8"):
                made = spec(precision, seed, times)
                about = {"precision": precision, "seed": seed, "times": times}
                about["warmup_steps"] = made.learning_rates.index(
                    max(made.learning_rates)
                )
                yield {**about, "steps": STEPS, **trained(made)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and write one JSON line for each run."""
    parser = argparse.ArgumentParser("benchmarks.search.curves", description=__doc__)
    parser.add_argument("--output", type=Path, default=CURVES)
    options = parser.parse_args(arguments)
    with options.output.open("w", encoding="utf-8") as file:
        for run in every():
            print(json.dumps(run), file=file, flush=True)
            print(run["precision"], run["seed"], run["losses"][-1:], file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
