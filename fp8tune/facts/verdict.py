"""Whether a peak of memory fits a GPU. No facts.

``docs/accuracy.md`` compares the verdicts with every published run that we hold.
"""

from __future__ import annotations

from fp8tune.job import Unknown, Words, known

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
    pp: int,
    limit_gib: float,
    memory_gib: float | None,
    peak: tuple[float, float, float],
) -> Words:
    """The verdict on a peak by its lower end, middle and upper end [GiB].

    - ``out-of-memory``: all of it is above the GPU's memory
    - ``probably-out-of-memory``: its middle is above ``RAN_OUT``
    - ``may-not-fit``: its upper end is above ``FULLEST``
    - ``fits``: all of it is below

    ``limit_gib`` is the most memory that the GPU can have, ``memory_gib`` what it has.
    Raises ``Unknown`` where that is not known, and for a pipeline that is not out of
    memory, as the last stage is not covered.
    """
    if (found := too_much(limit_gib, memory_gib, peak[0], peak[1])) is not None:
        return found
    if pp > 1:
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
