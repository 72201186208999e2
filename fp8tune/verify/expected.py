"""What a config asks of FP8: whether, and which GEMMs should run in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from fp8tune.job import Job, Unknown

if TYPE_CHECKING:
    from fp8tune.config.reader import Config
    from fp8tune.facts.linears import Gemm

T = TypeVar("T")

KEEPS_WEIGHT_GRADIENT = "rowwise_with_gw_hp"
"""The recipe of torchao that computes one of three GEMMs in high precision."""


@dataclass(frozen=True)
class Expected:
    """What a config asks, in which file and line; all else may be unknown (None).

    ``asked`` is whether the config asks for FP8. ``flop_share`` is the share of the
    linears' FLOPs that should run in FP8, attention left out; ``gemms`` are the linears
    of one micro-batch. ``modules`` is the number of linears that are converted,
    ``experts`` whether the model has any. ``kept_passes`` is how many of the GEMMs of a
    converted linear stay in high precision.
    """

    path: str = ""
    line: int = 0
    asked: bool | None = None
    compile: bool | None = None
    flop_share: float | None = None
    gemms: tuple[Gemm, ...] = ()
    modules: int | None = None
    experts: bool = False
    kept_passes: int = 0

    @property
    def call_share(self) -> float | None:
        """The share of the linears' GEMMs that should run in FP8; unknown with experts.

        How many GEMMs experts take depends on how they are grouped.
        """
        if self.flop_share is None or self.experts:
            return None
        calls = sum(g.copies * g.passes for g in self.gemms)
        high = sum(g.copies * self.kept_passes for g in self.gemms if g.fp8)
        fp8 = sum(g.copies * g.passes for g in self.gemms if g.fp8)
        return (fp8 - high) / calls

    def names(self, shape: tuple[int, int, int]) -> list[str]:
        """The linears that should run in FP8 and have a GEMM of this shape.

        Forward and both backward GEMMs of a linear have its M, K and N in turn.
        """
        sizes = sorted(shape)
        return [
            g.name for g in self.gemms if g.fp8 and sorted((g.m, g.k, g.n)) == sizes
        ]


NOTHING = Expected()


def expected(config: Config) -> Expected:
    """Return what a config asks."""
    found = of_job(config.job, config.path)
    key = config.job.key("precision")
    known = found.asked is not None and key
    return replace(found, line=config.line(key)) if known else found


def of_job(job: Job, path: str = "") -> Expected:
    """Return what a job asks."""
    precision = _find(job, "precision", str)
    if precision is None:
        return Expected(path)
    fp8 = precision == "fp8"
    gemms = _find(job, "gemms", tuple) or ()
    kept = int(_find(job, "fp8_recipe", str) == KEEPS_WEIGHT_GRADIENT)
    return Expected(
        path,
        0,
        fp8,
        _find(job, "compile", bool),
        _flop_share(gemms, kept) if fp8 and gemms else None,
        gemms if fp8 else (),
        _modules(job, gemms) if fp8 else None,
        bool(_find(job, "experts", int)),
        kept,
    )


def _find(job: Job, name: str, kind: type[T]) -> T | None:
    """Return a field of the job, None if it is unknown or of another type."""
    try:
        value = job[name]
    except Unknown:
        return None
    return value if isinstance(value, kind) else None


def _flop_share(gemms: tuple[Gemm, ...], kept: int) -> float:
    reached = sum(g.flops * (g.passes - kept) / g.passes for g in gemms if g.fp8)
    return reached / sum(g.flops for g in gemms)


def _modules(job: Job, gemms: tuple[Gemm, ...]) -> int | None:
    """Return how many linears are converted.

    A trainer may name those of one block (``converted``), where its GEMMs are unknown.
    """
    if gemms:
        return sum(g.copies for g in gemms if g.fp8)
    try:
        return int(job["converted"]) * int(job["layers"])
    except (Unknown, KeyError):
        return None
