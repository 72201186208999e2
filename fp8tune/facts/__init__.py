"""Named quantities that follow from a job, without torch.

Each public function of a module here is a fact named ``module.function``; its
parameters are fields of the job or other facts (``memory.logits_gib`` is spelled
``memory_logits_gib``). The docstring gives meaning, unit in brackets, and source.
"""

from __future__ import annotations

from fp8tune.facts import (
    backward,
    experts,
    fp8,
    gemm,
    gpu,
    instead,
    memory,
    mixture,
    params,
    parts,
    peak,
    sizing,
    speed,
    step,
    tables,
)
from fp8tune.job import Source, sources

FACTS: dict[str, Source] = {
    **sources(step, "step."),
    **sources(fp8, "fp8."),
    **sources(gpu, "gpu."),
    **sources(params, "params."),
    **sources(memory, "memory."),
    **sources(tables, "memory."),
    **sources(backward, "memory."),
    **sources(experts, "memory."),
    **sources(mixture, "memory."),
    **sources(peak, "memory."),
    **sources(parts, "memory."),
    **sources(sizing, "memory."),
    **sources(gemm, "gemm."),
    **sources(speed, "speed."),
    **sources(instead, "instead."),
}
"""All facts by name."""
