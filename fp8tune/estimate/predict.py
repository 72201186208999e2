"""Predict one job from its facts, and name what is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from fp8tune.estimate.refusals import Refusal
from fp8tune.facts import calibration
from fp8tune.facts.calibration import Band, Gain
from fp8tune.facts.gaps import TOO_MUCH as DOES_NOT_FIT
from fp8tune.facts.memory.peak import EXACT
from fp8tune.facts.memory.verdict import OUT, PLAIN, TOO_MUCH
from fp8tune.facts.runs import Run
from fp8tune.job import Job, Unknown

T = TypeVar("T")


class Prediction(NamedTuple):
    """Memory of rank 0 [GiB], tokens/s over all GPUs, and two verdicts.

    Unknown values are ``None``, and ``fit`` and ``pays`` are then ``unknown``.
    ``missing`` maps each unknown value to the fact that it lacks. A run that is
    ``refused`` because of settings that memory depends on has no predictions; one that
    does not fit has no speed and no gain. ``least_gib`` is a lower bound of the memory,
    where no more is known.
    """

    memory: Band | None = None
    least_gib: float | None = None
    peak_at: str | None = None
    breakdown_gib: dict[str, float] = {}
    fit: str = "unknown"
    gpu_gib: float | None = None
    usable_gib: float | None = None
    speed: Band | None = None
    fp8_gain: float | None = None
    fp8_gain_low: float | None = None
    fp8_gain_high: float | None = None
    best_published: float | None = None
    best_published_run: str | None = None
    engine: str | None = None
    suspicious: bool = False
    fp8_flop_share: float | None = None
    pays: str = "unknown"
    reasons: list[str] = []
    missing: dict[str, str] = {}
    first_stage: bool = False
    small_nodes: bool = False
    refused: list[Refusal] = []

    @property
    def impossible(self) -> bool:
        """Whether the run cannot exist."""
        return any(refusal.voids for refusal in self.refused)

    @property
    def has_memory(self) -> bool:
        """Whether the run's memory, or a lower bound of it, is known."""
        return self.memory is not None or self.least_gib is not None

    @property
    def too_much(self) -> bool:
        """Whether the run probably does not fit the GPU."""
        return self.fit in TOO_MUCH

    @property
    def does_not_fit(self) -> bool:
        """Whether the run certainly does not fit the GPU."""
        return self.fit == OUT

    @property
    def may_fit(self) -> bool:
        """Whether the run exists, and may fit the GPU."""
        return not self.too_much and not self.impossible

    @property
    def needs_segments(self) -> bool:
        """Whether the run fits only with the allocator's expandable segments."""
        if self.memory is None or self.gpu_gib is None or self.too_much:
            return False
        return self.memory.value > PLAIN * self.gpu_gib

    @property
    def without_fp8(self) -> Prediction:
        """The prediction of a run in which nothing computes in FP8."""
        pays = "unknown" if self.impossible or self.does_not_fit else "no"
        return self.without_gain(pays)._replace(fp8_flop_share=None)

    def without_gain(self, pays: str, reasons: Sequence[str] = ()) -> Prediction:
        """Return the prediction with this verdict on FP8 and no figures of its gain."""
        return self._replace(
            pays=pays,
            reasons=list(reasons),
            suspicious=False,
            fp8_gain=None,
            fp8_gain_low=None,
            fp8_gain_high=None,
        )

    @property
    def void(self) -> Prediction:
        """The prediction of a run that cannot exist: only why."""
        refused = [refusal._replace(voids=True) for refusal in self.refused]
        return Prediction(refused=refused)


def predict(
    job: Job, runs: Sequence[Run] = (), refused: Sequence[Refusal] = ()
) -> Prediction:
    """Predict a job; measured runs correct the prediction."""
    void = any(one.voids for one in refused)
    found = Prediction() if void else _predict(job, runs)
    return found._replace(refused=list(refused))


def _predict(job: Job, runs: Sequence[Run]) -> Prediction:
    missing: dict[str, str] = {}

    def known(name: str, found: Callable[[], T], instead: T) -> T:
        try:
            return found()
        except Unknown as error:
            missing[name] = str(error.args[0])
            return instead

    def fact(name: str, instead: Any = None) -> Any:
        return known(name, lambda: judged[name], instead)

    gain = known("speed.fp8_gain", lambda: calibration.gain(job, runs), None)
    judged = job.with_values(gain.facts) if gain else job
    memory = known("memory.peak_gib", lambda: calibration.memory(job, runs), None)
    parts = fact("memory.breakdown", {})
    found = Prediction(
        memory=memory,
        least_gib=fact("memory.least_gib") if memory is None else None,
        peak_at=fact("memory.peak_at"),
        breakdown_gib=_scaled(parts, memory.value if memory else 0.0),
        fit=known("memory.fit", lambda: _fit(job, memory), "unknown"),
        gpu_gib=fact("gpu.memory_gib"),
        usable_gib=fact("memory.usable_gib"),
        speed=known(
            "speed.tokens_per_second", lambda: calibration.speed(job, runs), None
        ),
        fp8_gain=fact("speed.fp8_gain"),
        fp8_gain_low=fact("speed.fp8_gain_low"),
        fp8_gain_high=fact("speed.fp8_gain_high"),
        best_published=fact("fp8.best_published"),
        best_published_run=fact("fp8.best_published_run"),
        engine=fact("speed.engine_title"),
        suspicious=fact("speed.fp8_gain_suspicious", False),
        fp8_flop_share=fact("fp8.flop_share"),
        pays=fact("fp8.pays", "unknown"),
        reasons=[*_correction(gain), *fact("fp8.reasons", [])],
        missing=missing,
        first_stage=fact("memory.first_stage_only", False),
        small_nodes=fact("speed.on_small_nodes", False),
    )
    return _without_speed(found) if found.too_much else found


def _without_speed(found: Prediction) -> Prediction:
    """Drop the speed that a run probably does not have, and the gain if it cannot."""
    facts = ("speed.tokens_per_second", "speed.fp8_gain", "fp8.pays")
    dropped = facts if found.does_not_fit else facts[:1]
    missing = found.missing | dict.fromkeys(dropped, DOES_NOT_FIT)
    found = found._replace(speed=None, missing=missing)
    return found.without_gain("unknown") if found.does_not_fit else found


def _correction(gain: Gain | None) -> list[str]:
    """Say why a gain differs from the published tables."""
    if gain is None:
        return []
    return [
        f"{gain.runs} measured runs in both precisions put the gain at "
        f"{gain.factor:.2f} times the value from published tables"
    ]


def _scaled(parts: dict[str, float], peak: float) -> dict[str, float]:
    """Scale the parts of memory to a corrected peak; exact parts (dtypes) stay.

    If the exact parts alone exceed the peak, all parts are scaled alike.
    """
    exact = sum(gib for name, gib in parts.items() if name in EXACT)
    whole = sum(parts.values())
    rest = whole - exact
    by = (peak - exact) / rest if rest and peak else 1.0
    fixed: tuple[str, ...] = EXACT
    if by < 0:
        by, fixed = peak / whole, ()
    found = {n: gib if n in fixed else gib * by for n, gib in parts.items()}
    return dict(sorted(found.items(), key=lambda part: -part[1]))


def _fit(job: Job, memory: Band | None) -> str:
    return str(calibration.memory_fit(job, memory) if memory else job["memory.fit"])


def gemms(job: Job) -> list[dict[str, Any]]:
    """Return the rows of ``gemm.table``, none if it is unknown."""
    return job.find("gemm.table") or []
