"""Choose the GPUs of an estimate: from the command line, else from the file.

If neither names them, a number is assumed, and predictions for others are added.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.estimate.grid import Variants
from fp8tune.estimate.predict import Prediction
from fp8tune.facts.gpus import Gpu, find, members
from fp8tune.facts.memory.verdict import verdict
from fp8tune.facts.speed import NODE
from fp8tune.job import Job, Unknown

SIZES = 8
"""Numbers of GPUs shown where it is not said."""

ASSUMED = "nobody"
"""Who says how many GPUs there are, where it is assumed."""


def titled(known: Config) -> tuple[int, int]:
    """Return how many GPUs the config's title names, and on which line; 0 if none."""
    if known.job.target.world_size:
        return 0, 0
    from fp8tune.lint.title import gpus_of

    return gpus_of(known.document)


class Placed(NamedTuple):
    """A config on the GPUs of its estimate, and why it cannot run there."""

    config: Config
    refused: list[str]


def on_its_gpus(known: Config) -> Placed:
    """Return the config on as many GPUs as an estimate of it uses."""
    variants = Variants(known)
    if not variants.target.world_size:
        sizes = by_world_size(variants)
        variants = assumed(variants, sizes, titled(known))
    target = variants.target
    if target.world_size_origin == ASSUMED:
        variants = variants.on(target.world_size, "assumed: add --world-size 16")
    refused = [one.message for one in variants.refused if one.voids]
    return Placed(variants.config, refused)


def by_world_size(variants: Variants, precision: str = "") -> dict[int, Prediction]:
    """Predict on other numbers of GPUs, doubling from the fewest.

    A number on which the config fails for a reason of that number has only the reason.
    """
    least = fewest(variants.job)
    sizes = [least << power for power in range(SIZES)]
    changes = {"precision": precision} if precision else {}
    found = {size: variants.on(size).predict(changes) for size in sizes}
    known = {size: said for size, said in found.items() if said.has_memory}
    least = min((len(said.refused) for said in known.values()), default=0)
    return {
        size: said if len(said.refused) == least else said.void
        for size, said in known.items()
    }


def fewest(job: Job) -> int:
    """Return the fewest GPUs that the parallel degrees need; unknown ones are 1."""
    degrees = ("dp_replicate", "tp", "pp", "cp", "ep")
    return math.prod(job.find(name) or 1 for name in degrees)


def assumed(
    variants: Variants, sizes: dict[int, Prediction], titled: tuple[int, int]
) -> Variants:
    """Return the config on the GPUs that its title names, else on a node of 8 or more.

    If its precision cannot run at all, on as many as are enough in bf16. If no memory
    is known, its gaps are those on a node.
    """
    found = by_title(variants, titled)
    if found.target.world_size:
        return found
    sizes = sizes or by_world_size(variants, "bf16")
    runs = [size for size, said in sizes.items() if said.has_memory]
    enough = [size for size in runs if size >= NODE] or runs[-1:]
    least = fewest(variants.job)
    size = enough[0] if enough else -(-NODE // least) * least
    return variants.on(size, ASSUMED)


def by_title(variants: Variants, titled: tuple[int, int]) -> Variants:
    """Return the config on the GPUs of its title if FP8 or bf16 can run there."""
    size, line = titled
    there = variants.on(size, f"the title on line {line}") if size else variants
    either: list[dict[str, Any]] = [{}, {"precision": "bf16"}]
    if all(there.predict(changes).impossible for changes in either):
        return variants
    return there


def by_gpu(job: Job, said: Prediction) -> dict[str, list[str]]:
    """Return the FP8 GPUs by verdict on the peak, those with least memory first.

    If the config's GPU is a family, only its members; none if it is one GPU.
    """
    found: dict[str, list[str]] = {}
    gpus = [find(name) for name in find(job["gpu"]).members] if "gpu" in job else None
    if said.memory:
        for gpu in sorted(
            members() if gpus is None else gpus,
            key=lambda gpu: gpu.memory_limit_gib or 0.0,
        ):
            try:
                verdict = _verdict(job, said, gpu)
            except Unknown:
                continue
            found.setdefault(verdict, []).append(gpu.name)
    return found


def _verdict(job: Job, said: Prediction, gpu: Gpu) -> str:
    limit, peak = gpu.memory_limit_gib, said.memory
    if not limit or not peak or ("gpu" not in job and not gpu.fp8_matmul):
        raise Unknown("gpu.memory_gib")
    first, band = job["memory.first_stage_only"], (peak.low, peak.value, peak.high)
    return verdict(first, limit, gpu.memory_gib, band)
