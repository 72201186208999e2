"""Named quantities that follow from a job, without torch.

Each public function of these modules is a fact, such as ``memory.logits_gib``; its
parameters are fields of the job or other facts, spelled ``memory_logits_gib``. The
docstring gives its meaning, its unit in brackets, and the source.
"""

from __future__ import annotations

from fp8tune.facts import (
    fp8,
    gemm,
    gpu,
    instead,
    job_versions,
    params,
    speed,
    step,
    te,
)
from fp8tune.facts.memory import experts, fit, held, instants, peak, sizing
from fp8tune.job import Source, sources

FACTS: dict[str, Source] = {
    **sources(step, "step."),
    **sources(fp8, "fp8."),
    **sources(te, "te."),
    **sources(job_versions, "versions."),
    **sources(gpu, "gpu."),
    **sources(params, "params."),
    **sources(held, "memory."),
    **sources(instants, "memory."),
    **sources(experts, "memory."),
    **sources(peak, "memory."),
    **sources(fit, "memory."),
    **sources(sizing, "memory."),
    **sources(gemm, "gemm."),
    **sources(speed, "speed."),
    **sources(instead, "instead."),
}
"""All facts by name."""
