"""Error bands of memory estimates, and whether a peak fits a GPU. No facts.

``docs/accuracy.md`` compares with every published run that we hold. The bands are the
worst errors there; a test checks this.
"""

from __future__ import annotations

from fp8tune.job import Unknown, Words, known

KINDS = {
    "dense": (0.02, 0.02),
    "mixture of experts": (0.03, 0.035),
    "VLM": (0.06, 0.03),
    "kept eager": (0.06, 0.06),
    "fp32": (0.06, 0.06),
    "kept compiled": (0.10, 0.10),
}
PLACES = {"one GPU": (0.02, 0.05), "pipeline": (0.02, 0.05)}
BANDS = KINDS | PLACES
"""How far below and above the estimate a peak of each family may lie.

What blocks keep without full AC has no measured run but of VLMs: it is exact for eager
ones, and was measured on the CPU for compiled ones, as was fp32. On one GPU and in
pipelines only dense models under full AC were measured; of others both errors are
added. Experts were measured on GPUs within 1 %; of the trainer's own steps on the CPU
all but one need at most 3.4 % more, that one 4.3 % (three blocks, accumulated twice,
two experts and a shared one; benchmarks/results/step_memory.json).
"""

MEASURED = {"VLM, kept eager": KINDS["VLM"]}
"""Families that are several kinds at once and have measured runs."""


def band(family: str) -> tuple[float, float]:
    """The lower and the upper error of a family's peak [ratio].

    If it is of several kinds, the widest on each side, with the error of parallelism
    added.
    """
    names = family.split(", ")
    kinds = [KINDS[name] for name in names if name in KINDS] or [(0.0, 0.0)]
    places = [PLACES[name] for name in names if name in PLACES]
    kind = ", ".join(name for name in names if name not in PLACES)
    widest = MEASURED.get(kind) or tuple(map(max, zip(*kinds, strict=True)))
    below, above = (sum(side) for side in zip(widest, *places, strict=True))
    return below, above


CALIBRATED = {
    "": (0.03, 0.02),
    "dense, bf16": (0.012, 0.008),
    "mixture of experts, bf16": (0.01, 0.01),
    **dict.fromkeys(("VLM, bf16", "VLM, fp8", "one GPU, VLM, bf16"), (0.06, 0.06)),
}
"""The same to either side after one measured run of the family, and after more.

What the worst run left out of its group, and the worst choice of a single one, leave
(``docs/accuracy.md``); "" is for families without such runs, by those of other
trainers, and for FP8 by runs in bf16. VLMs under full AC do not help each other: one
of two lies 5 % off the other.
"""


FITS, MAY_NOT_FIT = Words("fits"), Words("may-not-fit")
PROBABLY_OUT, OUT = Words("probably-out-of-memory"), Words("out-of-memory")

TOO_MUCH = (PROBABLY_OUT, OUT)
"""Verdicts on a run that is not expected to work."""

FULLEST = 0.915
"""Share of the GPU that the fullest run of KempnerForge that worked had allocated.

127.9 of 139.8 GiB (benchmarks/moe_packed/moe_packed_benchmark.md). The allocator had
``expandable_segments:True`` then. Users of torchtitan see retries and a loss of speed
from 91 % on (https://github.com/pytorch/torchtitan/issues/1558).
"""

RAN_OUT = 0.959
"""Share of the GPU that a run of KempnerForge had allocated when it ran out of memory.

134.1 of 139.8 GiB (benchmarks/moe_expert_parallel/moe_ep_benchmark.md). Less is no
proof: others have run with 94.3 % of an H100 reserved (Qwen3-30B-A3B on 8 H100,
https://github.com/PrimeIntellect-ai/prime-rl/tree/e706a49f/benchmarks/baselines).
"""

PLAIN = 0.67
"""Share of the fullest run of KempnerForge whose script leaves the allocator alone.

93.2 of 139.8 GiB (benchmarks/config_validation/config_validation.md, 70b_32gpu_tp4).
All fuller ones of its benchmarks set ``expandable_segments:True``, which its docs call
load-bearing for experts at 76 % (docs/reference/benchmarks.md).
"""

SEGMENTS = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
"""What the environment of a run has to set so that so much of the GPU is usable."""


def verdict(
    first_stage_only: bool,
    limit_gib: float,
    memory_gib: float | None,
    peak: tuple[float, float, float],
) -> Words:
    """The verdict on a peak, by its lower end, middle and upper end [GiB].

    - ``out-of-memory``: its lower end is above the GPU's memory
    - ``probably-out-of-memory``: its middle is above ``RAN_OUT``
    - ``may-not-fit``: its upper end is above ``FULLEST``, its middle not above
      ``RAN_OUT``
    - ``fits``: all of it is below ``FULLEST``

    ``limit_gib`` is the most memory that the GPU can have, ``memory_gib`` what it has.
    Raises ``Unknown`` if that is not known, and if the peak is of the first stage of a
    pipeline alone and that is not out of memory: the last stage has the logits.
    """
    if (found := too_much(limit_gib, memory_gib, peak[0], peak[1])) is not None:
        return found
    if first_stage_only:
        raise Unknown("memory.last_stage")
    memory = known("gpu.memory_gib", memory_gib)
    return FITS if peak[2] <= FULLEST * memory else MAY_NOT_FIT


def too_much(
    limit_gib: float, memory_gib: float | None, low: float, middle: float
) -> Words | None:
    """The verdict on a peak that is too much for the GPU, else ``None``."""
    if low > limit_gib:
        return OUT
    full = RAN_OUT * memory_gib if memory_gib else limit_gib
    return PROBABLY_OUT if middle > full else None
