"""What ``estimate`` says of runs whose memory Megatron-LM's own tests recorded.

Each functional test of Megatron-LM is a folder with the flags of a run and with what it
measured on 8 H100s, among it the peak of ``torch.cuda.max_memory_allocated`` on the
last rank: of the last pipeline stage. A run that others published is there too.

``python -m benchmarks.megatron_lm.recorded`` prints every run of ``recorded.jsonl``
with the error of the estimate. ``--collect CHECKOUT`` writes that file: of all tests of
GPT models that train from the start, on one node, without what the estimate does not
cover. PYTHON then needs PyYAML.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.facts.memory import GIB
from fp8tune.formats.bash.document import parse
from fp8tune.job import Job, Target, Unknown
from fp8tune.trainers.megatron_lm.memory import Peak
from fp8tune.trainers.trainer import trainer
from tests.support.verdicts import megatron_script
from tools.megatron_lm.source import COMMIT

RUNS = Path(__file__).parent / "recorded.jsonl"
GPUS = 8
"""GPUs of a node; tests of several nodes do not say how many."""

VOCABULARY = 50257
"""Entries of the vocabulary file that the tests load: that of GPT-2."""

KINDS = ("gpt", "moe")
SKIPPED = ("resume", "inference", "grpo", "release", "modelopt", "uninstall_te")
"""Parts of names of tests that load a checkpoint, do not train, need several nodes, or
have no Transformer Engine."""


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


def collected(checkout: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of the file, from the tests of a checkout."""
    tests = checkout / "tests" / "functional_tests" / "test_cases"
    for path in sorted(tests.glob("*/*/golden_values_*_dgx_*.json")):
        name = f"{path.parent.parent.name}/{path.parent.name}"
        gpu = path.stem.rpartition("_")[2].upper()
        skipped = any(word in name for word in SKIPPED)
        if path.parent.parent.name not in KINDS or skipped or gpu != "H100":
            continue
        row = _row(path, name)
        if row:
            yield row


def _row(path: Path, name: str) -> dict[str, Any] | None:
    import yaml

    config = yaml.safe_load((path.parent / "model_config.yaml").read_text())
    values = json.loads(path.read_text()).get("mem-max-allocated-bytes", {})
    peaks = [
        v for v in values.get("values", {}).values() if isinstance(v, (int, float))
    ]
    if not peaks:
        return None
    known = {key for key, _ in trainer("megatron_lm").schema.dotted_keys()}
    flags: list[str] = []
    arguments = dict(config["MODEL_ARGS"])
    if "--vocab-file" in arguments:
        arguments["--vocab-size"] = VOCABULARY
    for flag, value in arguments.items():
        key = flag.removeprefix("--").replace("-", "_")
        if key in known and value is not False and key not in ("save", "spec"):
            flags += [flag] if value is True else [flag, *str(value).split()]
        elif key == "spec":
            return None
    row = {"test": name, "gib": round(max(peaks) / GIB, 4), "flags": flags}
    try:
        _ = run_of(row).error
    except Unknown as missing:
        print(f"{name}: {missing.args[0]}", file=sys.stderr)
        return None
    return row


def main() -> int:
    """Print all runs, or write the file."""
    parser = argparse.ArgumentParser(prog="benchmarks.megatron_lm.recorded")
    parser.add_argument("--collect", type=Path, help="a checkout of Megatron-LM")
    options = parser.parse_args()
    if options.collect:
        kept = [row for row in rows() if "source" in row]
        every = [*collected(options.collect), *kept]
        RUNS.write_text("".join(f"{json.dumps(row)}\n" for row in every), "utf-8")
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
