"""How far estimates of memory may be off, by family of runs. No facts.

``docs/accuracy.md`` compares with every published run that we hold; the bands are the
worst errors there, and a test holds them to it.
"""

from __future__ import annotations

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
    """How far below and above the peak of a family may lie [ratio].

    Of several kinds the widest to either side; their place is added.
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
