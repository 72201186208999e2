"""Loss curves of real training on a CPU, recorded by the benchmarks."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.search.losses.compare import LossCurve
from fp8tune.trials.record import LossRun
from fp8tune.verify.evidence import Curve
from fp8tune.verify.runs import Run

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SEEDS = RESULTS / "seed_curves.jsonl"
CURVES = RESULTS / "loss_curves.jsonl.gz"


class Pool(NamedTuple):
    """Real runs, by precision and seed."""

    bf16: dict[int, LossCurve]
    fp8: dict[int, LossCurve]
    wild: dict[int, LossCurve]


def pool(path: Path) -> Pool:
    """Read recorded runs; ``wild`` are those of FP8 at too high a learning rate."""
    found = Pool({}, {}, {})
    with path.open(encoding="utf-8") as lines:
        for run in map(json.loads, lines):
            losses, norms = tuple(run["losses"]), tuple(run["grad_norms"])
            how = LossRun(run["seed"], run["warmup_steps"], run["steps"], 10)
            nan = len(losses) < run["steps"]
            curve = LossCurve(run["precision"], how, losses, norms, nan)
            kind = found.fp8 if run["precision"] == "fp8" else found.bf16
            if run["times"] == 1:
                kind[run["seed"]] = curve
            elif run["precision"] == "fp8":
                found.wild[run["seed"]] = curve
    return found


def recorded(path: Path = CURVES) -> list[dict[str, Any]]:
    """Return the recorded runs."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def table(run: dict[str, Any]) -> str:
    """Return a recorded run as a CSV file; one that stopped early ends in NaN."""
    rows = list(zip(run["losses"], run["grad_norms"], strict=True))
    if len(rows) < run["steps"]:
        rows.append((math.nan, math.nan))
    size = run["tokens_per_step"]
    lines = (
        f"{step},{size * step},{loss},{norm}\n"
        for step, (loss, norm) in enumerate(rows, 1)
    )
    return "step,tokens,loss,grad_norm\n" + "".join(lines)


Runs = dict[tuple[str, str, str], list[Run]]
"""Runs by precision, order of the data, and fault."""


def runs() -> Runs:
    """Return the recorded runs by precision, order of the data, and fault."""
    found: Runs = {}
    for record in recorded():
        kind = record["precision"], record["data"], record["fault"]
        found.setdefault(kind, []).append(run_of(record))
    return found


def run_of(record: dict[str, Any], added: float = 0.0) -> Run:
    """Return a recorded run, with ``added`` to each loss.

    One that stopped early stopped at a loss of NaN.
    """
    curve, losses = Curve(), record["losses"]
    for step, pair in enumerate(zip(losses, record["grad_norms"], strict=True), 1):
        curve.add(step=step, loss=pair[0] + added, grad_norm=pair[1])
    if len(losses) < record["steps"]:
        curve.add(step=len(losses) + 1)
    name = f"{record['precision']} {record['seed']}"
    return Run(name, "", [], curve, tokens_per_step=float(record["tokens_per_step"]))


def worse(run: Run, share: float) -> Run:
    """Return a run whose loss is higher by a share of it."""
    curve = Curve()
    pairs = zip(run.curve.step, run.curve.loss, run.curve.grad_norm, strict=True)
    for step, loss, norm in pairs:
        curve.add(step=step, loss=loss * (1 + share), grad_norm=norm)
    return Run(run.path, "", [], curve, tokens_per_step=run.tokens_per_step)
