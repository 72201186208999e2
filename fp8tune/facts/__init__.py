"""Named quantities that follow from a job, without torch.

Each public function of these modules is a fact, such as ``memory.logits_gib``; its
parameters are fields of the job or other facts, spelled ``memory_logits_gib``. The
docstring gives its meaning, its unit in brackets, and the source.
"""

from __future__ import annotations

from importlib import import_module

from fp8tune.job import Source, sources

MODULES = {
    "step": "step.",
    "fp8": "fp8.",
    "te": "te.",
    "job_versions": "versions.",
    "gpu": "gpu.",
    "params": "params.",
    "memory.held": "memory.",
    "memory.instants": "memory.",
    "memory.experts": "memory.",
    "memory.peak": "memory.",
    "memory.fit": "memory.",
    "memory.sizing": "memory.",
    "gemm": "gemm.",
    "speed": "speed.",
    "instead": "instead.",
}
"""The modules whose public functions are facts, and what their names begin with."""


def _read() -> dict[str, Source]:
    try:
        from fp8tune._index import FACTS
    except ImportError:  # in a checkout
        return {
            name: source
            for module, prefix in MODULES.items()
            for name, source in sources(
                import_module(f"fp8tune.facts.{module}"), prefix
            ).items()
        }
    return {name: Source(*fields) for name, fields in FACTS.items()}


FACTS: dict[str, Source] = _read()
"""All facts by name."""
