"""What ``estimate`` says of prime-rl's published benchmark runs.

``python -m benchmarks.prime_rl.published`` prints the memory of every run of
``published.csv`` with the error of the prediction. Runs of dense models that are
trained whole are there, with the tokens of a micro-batch and what the allocator had
reserved. prime-rl's own benchmark script ran them, with its defaults of that time:

- until June 2026 neither activations nor the optimizer's state were offloaded, and SFT
  computed all logits at once;
- until March 2026 RL computed its loss in chunks of the vocabulary over all tokens.
  No key of the current release does that, so these runs show only how far it is off.

fp8tune predicts no speed for prime-rl, so none is compared.
"""

from __future__ import annotations

import csv
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from fp8tune.job import Job, Target
from fp8tune.trainers.trainer import trainer
from tools.prime_rl.source import RELEASE

RUNS = Path(__file__).parent / "published.csv"
OFF = {"optim_cpu_offload": False, "ac_offloading": "None"}
"""The defaults of January 2026, as keys of the current release."""
JANUARY, JUNE = "2026-01", "2026-06"
OLD_CHUNK = 1024
"""Tokens per chunk of the loss in June 2026."""
GPUS = {"A6000": "a6000", "H100": "h100", "H200": "h200", "B200": "b200"}


class Run(NamedTuple):
    """One published run and what fp8tune says of it."""

    name: str
    group: str
    peak_gib: float
    job: Job

    @property
    def error(self) -> float:
        """How far the prediction is off [ratio]."""
        return float(self.job["memory.peak_gib"]) / self.peak_gib - 1


def runs() -> list[Run]:
    """Return all runs with their jobs."""
    with RUNS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if line[0] != "#"))
    return [_run(row) for row in rows]


def _run(row: dict[str, str]) -> Run:
    model: dict[str, Any] = {"name": row["model"], "seq_len": int(row["tokens"])}
    gpus, sft, june = int(row["gpus"]), row["kind"] == "sft", row["month"] == JUNE
    if not june:
        model |= OFF
    if row["ac"] == "offload":
        model["ac_offloading"] = {}
    if sft:
        model |= {"fused_lm_head_token_chunk_size": "disabled"}
        shape = {"batch_size": 2 * gpus, "seq_len": int(row["tokens"])}
        data: dict[str, Any] = {"type": "fake", **shape}
        group = "all logits"
    else:
        data = {"fake": {"batch_size": 2 * gpus}}
        group = "loss in chunks" if june else "an older loss"
        model |= {"fused_lm_head_token_chunk_size": OLD_CHUNK} if june else {}
    known = trainer(f"prime_rl=={RELEASE}.{'sft' if sft else 'rl_trainer'}")
    loaded = known.load({"model": model, "data": data})
    if loaded.faults:
        raise ValueError(f"{row}: {loaded.faults[0]}")
    name = row["model"].rpartition("/")[2].removesuffix("-Instruct-2507")
    label = f"{row['kind']} {name}, {gpus} {row['gpu']}, {int(row['tokens']):,} tokens"
    label += f", {row['ac']}" if row["ac"] == "offload" else ""
    job = known.job(loaded, Target(GPUS[row["gpu"]], gpus))
    return Run(label, group, float(row["peak_gib"]), job)


def main() -> int:
    """Print the table, and the errors by group."""
    found = runs()
    rows = [
        (
            run.name,
            run.group,
            f"{run.peak_gib:.1f}",
            f"{run.job['memory.peak_gib']:.1f}",
            f"{run.error:+.1%}",
        )
        for run in found
    ]
    print(machine.table(rows, ("run", "group", "GiB", "predicted", "error")))
    for group in dict.fromkeys(run.group for run in found):
        errors = [run.error for run in found if run.group == group]
        middle = statistics.median(map(abs, errors))
        print(
            f"{group}: {len(errors)} runs, {min(errors):+.1%} to {max(errors):+.1%}, "
            f"median size {middle:.1%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
