"""What the package versions of a job's environment do to its run.

Source: ``versions.toml``, whose combinations name their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp8tune.job import Job, Prose

if TYPE_CHECKING:
    from fp8tune.facts.versions import Match

TORCHAO = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
"""The recipes of torchao."""


def torchao(precision: str, fp8_recipe: str, te_recipe: str = "") -> bool:
    """Whether the FP8 linears are torchao's."""
    return precision == "fp8" and not te_recipe and fp8_recipe in TORCHAO


def nan(job: Job, precision: str = "fp8") -> str:
    """The versions with which the loss may become NaN, and why; empty for none."""
    return _said(_first(job, "nan", precision))


def nan_install(job: Job, precision: str = "fp8") -> str:
    """What to install instead of these versions."""
    return _install(_first(job, "nan", precision))


def crash(job: Job, precision: str = "fp8") -> str:
    """The versions with which the run fails, and why; empty for none."""
    return _said(_first(job, "crash", precision))


def crash_install(job: Job, precision: str = "fp8") -> str:
    """What to install instead of these versions."""
    return _install(_first(job, "crash", precision))


def silent(job: Job, precision: str = "fp8") -> str:
    """The versions with which FP8 is not what was asked, and why; empty for none."""
    return _said(_first(job, "silent", precision))


def silent_install(job: Job, precision: str = "fp8") -> str:
    """What to install instead of these versions."""
    return _install(_first(job, "silent", precision))


def _first(job: Job, consequence: str, precision: str) -> Match | None:
    """Return the first combination that the job's pinned or installed versions have.

    None where FP8 is off.
    """
    if precision != "fp8":
        return None
    versions = {
        name.removesuffix("_version").replace("_", "-"): version
        for name, version in job.given.items()
        if name.endswith("_version")
    }
    if not versions:
        return None
    from fp8tune.facts.versions import combinations, matches

    among = (
        each
        for each in combinations()
        if each.consequence == consequence
        and each.when
        and all(job.find(name) is True for name in each.when)
    )
    return next((each for each in matches(versions, among) if each.checked), None)


def _said(match: Match | None) -> str:
    return Prose(match or "")


def _install(match: Match | None) -> str:
    return Prose(match.combination.install if match else "")
