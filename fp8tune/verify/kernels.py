"""What a GPU kernel, an operator or a CUDA call of a trace is, by its name.

The patterns are data, in ``kernels.toml`` beside this file, with their evidence.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from typing import Any, Literal, cast

Source = Literal["kernel", "operator", "call"]

KINDS = {
    "fp8-gemm": "a matrix multiplication in FP8",
    "fp8-grouped": "a grouped matrix multiplication in FP8, as of experts",
    "gemm": "a matrix multiplication in 16 or 32 bit",
    "unclear-gemm": "a matrix multiplication whose precision its name does not show",
    "batched-gemm": "a matrix multiplication of a batch, as of attention",
    "cast": "a cast to FP8, or its scale",
    "collective": "communication between GPUs",
    "attention": "attention, which is never converted",
    "copy": "a copy",
    "backward": "what a node of the backward pass computes",
    "function": "possibly the forward pass of an autograd.Function",
    "optimizer": "a step of the optimizer",
    "compiling": "torch.compile at work",
    "compiled": "what torch.compile has generated",
    "step": "a step of the profiler's schedule",
    "data": "waiting for a batch",
    "wait": "a call in which the host waits for the GPU",
    "launch": "the launch of a kernel",
    "other": "anything else",
}
FP8 = frozenset({"fp8-gemm", "fp8-grouped"})
GEMMS = FP8 | {"gemm", "unclear-gemm", "batched-gemm"}
LONGEST_NAME = 8192
"""Characters of a name that are looked at; those of CUTLASS have up to some 6,000."""
MOST_NAMES = 5_000
"""Names that are remembered; a trace repeats some hundreds, often millions of times."""


@dataclass(frozen=True)
class Pattern:
    """A pattern of names, what they mean and why that is known.

    ``operands`` are the positions of the two matrices in an operator's
    ``Input Dims``. ``whole`` says that matrix multiplications inside belong to this
    operator, ``compiled`` that torch.compile makes such names, ``backward`` that only
    the gradients' format has such names.
    """

    name: str
    kind: str
    match: re.Pattern[str]
    engine: str
    evidence: str
    examples: tuple[str, ...]
    counterexamples: tuple[str, ...]
    architectures: tuple[str, ...] = ()
    operands: tuple[int, ...] = ()
    whole: bool = False
    compiled: bool = False
    backward: bool = False


@functools.cache
def patterns() -> dict[Source, tuple[Pattern, ...]]:
    """Return the patterns of kernels, operators and calls, in the order of the file.

    Raises ``ValueError`` if an entry has an unknown kind, ``TypeError`` if it lacks a
    field or has one too many.
    """
    import tomllib

    folder = os.path.dirname(__file__)
    with open(os.path.join(folder, "kernels.toml"), "rb") as file:
        data = tomllib.load(file)
    return {
        cast(Source, source): tuple(map(_pattern, entries))
        for source, entries in data.items()
    }


def _pattern(entry: dict[str, Any]) -> Pattern:
    if entry["kind"] not in KINDS:
        raise ValueError(f"{entry['name']}: no kind {entry['kind']!r}")
    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in entry.items()
    }
    return Pattern(**values | {"match": re.compile(entry["match"])})


def find(source: Source, name: str) -> Pattern | None:
    """Return the first pattern that matches a name, None if there is none."""
    return _find(source, name[:LONGEST_NAME])


@functools.lru_cache(MOST_NAMES)
def _find(source: Source, name: str) -> Pattern | None:
    matching = (each for each in patterns()[source] if each.match.search(name))
    return next(matching, None)


def kind(source: Source, name: str) -> str:
    """Return the kind of a kernel, an operator or a call, one of ``KINDS``."""
    pattern = find(source, name)
    return pattern.kind if pattern else "other"
