"""What ``estimate`` says of published torchtitan runs, from their TOML.

``python -m benchmarks.torchtitan.published`` prints memory and speed of every run of
``published.toml`` with the error of the prediction, and the range that ``estimate``
gives: of allocated memory, and of tokens/s on the GPU that it knows by this name, with
700 W. The trainer prints what the
allocator had reserved at most. Where the loss is eager, that includes the freed block
of the bf16 logits, which an estimate of what is allocated does not have; it is added.
"""

from __future__ import annotations

import statistics
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.estimates.speeds import DATA, TORCHAO
from fp8tune.facts.memory import GIB
from fp8tune.facts.steptime import Chip, seconds
from fp8tune.job import Job, Target
from fp8tune.trainers.trainer import trainer

RUNS = Path(__file__).parent / "published.toml"
NEAREST = "torchtitan==0.1.0"
"""The release nearest to all runs: they are of December 2024 to June 2025."""


def main() -> int:
    """Print the table and the median and worst errors."""
    data = tomllib.loads(RUNS.read_text(encoding="utf-8"))
    rows: list[tuple[str, ...]] = []
    errors: dict[str, list[float]] = {"memory": [], "speed": []}
    inside: defaultdict[str, list[bool]] = defaultdict(list)
    for run in data["run"]:
        job = job_of(run, data["base"])
        memory = reserved_gib(job)
        speed = tokens_per_second(job, run) if "tokens_per_second" in run else 0.0
        off = memory / run["peak_gib"] - 1
        errors["memory"].append(off)
        row = [run["name"], str(run["peak_gib"]), f"{memory:.1f}", f"{off:+.1%}"]
        low, high = job["memory.low_gib"], job["memory.high_gib"]
        row.append(f"{low:.1f} to {high:.1f}")
        freed = memory - job["memory.peak_gib"]
        inside["memory"].append(low <= run["peak_gib"] <= high)
        inside["memory with freed logits"].append(
            low <= run["peak_gib"] <= high + freed
        )
        if speed:
            faster = speed / run["tokens_per_second"] - 1
            errors["speed"].append(faster)
            row += [
                f"{run['tokens_per_second']:,.0f}",
                f"{speed:,.0f}",
                f"{faster:+.1%}",
            ]
            names = ("speed.tokens_low", "speed.tokens_high")
            slow, fast = (job[name] / run["gpus"] for name in names)
            row.append(f"{slow:,.0f} to {fast:,.0f}")
            inside["speed"].append(slow <= run["tokens_per_second"] <= fast)
        rows.append((*row, *[""] * (9 - len(row))))
    each = ("predicted", "error", "range")
    titles = ("run", "GiB", *each, "tokens/s", *each)
    print(machine.table(rows, titles))
    for name, off in errors.items():
        sizes = sorted(map(abs, off))
        print(f"{name}: median {statistics.median(sizes):.1%}, worst {sizes[-1]:.1%}")
    for name, found in inside.items():
        print(f"{name}: {sum(found)} of {len(found)} inside of the range")
    return 0


def job_of(run: dict[str, Any], bases: dict[str, dict[str, Any]]) -> Job:
    """Return the job of a run as fp8tune reads its config."""
    values: dict[str, dict[str, Any]] = {}
    for keys in (*(bases[name] for name in run["bases"]), run["keys"]):
        for key, value in keys.items():
            section, _, name = key.partition(".")
            values.setdefault(section, {})[name] = value
    known = trainer(NEAREST)
    loaded = known.load(values)
    if loaded.faults:
        raise ValueError(f"{run['name']}: {loaded.faults[0]}")
    job = known.job(
        loaded, Target("h100" if run["chip"] == CARD else "h200", run["gpus"])
    )
    return job.with_values({"loss_compiled": False}) if run.get("eager_loss") else job


def tokens_per_second(job: Job, run: dict[str, Any]) -> float:
    """Return the predicted tokens/s per GPU, on the chip that the run had."""
    step = job["speed.step"]
    chip = DATA["chip"][run["chip"]]
    rates = Chip(chip["tflops"], chip["gb_per_s"])
    parts = seconds(
        step, rates, job["fp8_recipe"], TORCHAO, gather=job["fp8_all_gather"]
    )
    return float(step.tokens / parts.total / step.tp)


def reserved_gib(job: Job) -> float:
    """Return the peak as the trainer prints it, at most what the card has [GiB]."""
    peak: float = job["memory.peak_gib"]
    if job["loss_compiled"]:
        return peak
    freed = 2 * job["head_tokens"] * job["vocab_size"] / job["tp"] / GIB
    return peak + freed if peak + freed <= CARD_GIB else peak


CARD, CARD_GIB = "h100-meta", 95
"""The H100s of the runs with an eager loss: 500 W, and their memory [GiB]."""


if __name__ == "__main__":
    sys.exit(main())
