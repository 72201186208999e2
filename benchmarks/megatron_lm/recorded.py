"""What ``estimate`` says of runs whose memory Megatron-LM's own tests recorded.

Each functional test of Megatron-LM is a folder with the flags of a run and with what it
measured on 8 H100s, among it the peak of ``torch.cuda.max_memory_allocated`` on the
last rank: of the last pipeline stage. A run that others published is there too.

``python -m benchmarks.megatron_lm.recorded`` prints every run of ``recorded.jsonl``
with the error of the estimate: of all tests of GPT models that train from the start, on
one node, without what the estimate does not cover. The file was collected from a
checkout (``--collect``, in this script at 4ab4e7af).
"""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.formats.bash.document import parse
from fp8tune.job import Job, Target
from fp8tune.trainers.megatron_lm.memory import Peak
from fp8tune.trainers.trainer import trainer
from tests.support.verdicts import megatron_script
from tools.megatron_lm.source import COMMIT

RUNS = Path(__file__).parent / "recorded.jsonl"
GPUS = 8
"""GPUs of a node; tests of several nodes do not say how many."""


class Run(NamedTuple):
    """One recorded run and the job that its flags describe."""

    test: str
    gib: float
    job: Job

    @property
    def group(self) -> str:
        """The group of runs that share an error band."""
        return str(self.job["estimate_family"])

    @property
    def estimate_gib(self) -> float:
        """The estimate of the last pipeline stage."""
        peaks: dict[str, Peak] = self.job["memory_peaks"]
        last = peaks.get("last") or peaks[""]
        return sum(last.parts.values()) + float(self.job["memory.workspaces_gib"])

    @property
    def error(self) -> float:
        """How far the estimate is off [ratio]."""
        return self.estimate_gib / self.gib - 1


def runs() -> list[Run]:
    """Return all recorded runs."""
    return [run_of(row) for row in rows() if row["gib"]]


def worked() -> list[Run]:
    """Return published runs on H100s that say no memory, but that worked.

    Their tables leave out some settings. Here weights are in FP8 and nothing is
    recomputed; gradients are summed in bf16 for the Llamas, else in fp32. Layers whose
    number the stages do not divide are rounded up, with the embedding and the loss.
    """
    return [run_of(row) for row in rows() if not row["gib"]]


def rows() -> list[dict[str, Any]]:
    """Return the lines of the file."""
    return list(map(json.loads, RUNS.read_text(encoding="utf-8").splitlines()))


def run_of(row: dict[str, Any]) -> Run:
    """Return the run of one line of the file."""
    known = trainer("megatron_lm")
    gpus = row.get("gpus", GPUS)
    document = parse(
        megatron_script(list(map(shlex.quote, row["flags"])), gpus).encode()
    )
    loaded = known.load(document.values)
    target = Target(gpu="h100", world_size=gpus)
    return Run(row["test"], row["gib"], known.job(loaded, target))


def main() -> int:
    """Print all runs."""
    print(f"Peaks that the tests of Megatron-LM recorded, at {COMMIT[:9]}.\n")
    for group in ("dense", "experts", "fp8"):
        mine = [run for run in runs() if run.group == group]
        errors = [run.error for run in mine]
        if not mine:
            continue
        print(
            f"{group}: {len(mine)} runs, {min(errors):+.1%} to {max(errors):+.1%}, "
            f"median {statistics.median(errors):+.1%}"
        )
        for run in sorted(mine, key=lambda run: run.error):
            print(
                f"  {run.error:+7.1%}  {run.estimate_gib:7.2f} of {run.gib:7.2f} GiB"
                f"  {run.test}"
            )
    print("runs that worked")
    for run in worked():
        peak, fit = run.job["memory.peak_gib"], run.job["memory.fit"]
        print(f"  {peak:.1f} GiB of 79.1: {fit}  {run.test}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
