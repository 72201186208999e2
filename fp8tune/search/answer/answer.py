"""The answer of a search as data: chosen setting, verdict, and findings with codes.

``decide`` decides it; ``wording`` has the sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fp8tune.search.answer.choice import Fp8Pair
from fp8tune.search.losses.findings import Stability
from fp8tune.search.objective import ENERGY
from fp8tune.search.plan import Plan
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

SAME_COMMAND, LARGER_BUDGET, NOTHING_MORE = "same-command", "larger-budget", ""
"""What would tell more than an answer."""
ROLES = ("chosen", "baseline", "bf16-baseline", "runner-up")
"""What a setting may be in an answer."""
BAD_DATA, DATA_ERRORS = "BadData", ("BadData", "ShortData")
"""Errors of trials that cannot train on the data of the config: whatever the setting,
or with so large a micro-batch."""
STEPPING = ("first_step", "steady", "profile")
"""Stages in which a trial makes steps."""


class Estimate(NamedTuple):
    """A measured value with its 95 % interval; no interval if there are too few runs.

    Tokens/s, tokens per joule, or a ratio of these.
    """

    value: float
    low: float | None = None
    high: float | None = None


def as_data(value: Any) -> Any:
    """Return a fact as JSON."""
    return value._asdict() if isinstance(value, Estimate) else value


class Finding(NamedTuple):
    """One statement about a search: a stable code and its facts.

    ``facts`` are numbers, estimates, texts, and settings as the knobs that differ from
    the baseline.
    """

    code: str
    facts: Mapping[str, Any] = {}

    def data(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return {n: as_data(value) for n, value in self.facts.items() if n != "text"}


class Measured(NamedTuple):
    """The settings in one objective; ``fp8_gain`` is FP8's over bf16, of ``pair``.

    A rehearsal on a CPU has neither: it says nothing about FP8 on a GPU.
    """

    chosen: Estimate | None = None
    baseline: Estimate | None = None
    gain: Estimate | None = None
    bf16_baseline: Estimate | None = None
    fp8_gain: Estimate | None = None
    fp8_verdict: str = "inconclusive"
    fp8_pairs: int = 0
    pair: Fp8Pair | None = None


class Ending(NamedTuple):
    """How a search ended: what would find more, and the budget for that [s].

    ``unchecked`` says why the losses of FP8 and bf16 were not compared, ``checking_s``
    is a budget that is enough for that [s], 0 if unknown.
    """

    next_step: str = LARGER_BUDGET
    settling_s: float = 0.0
    unchecked: str = ""
    checking_s: float = 0.0

    @property
    def budget_s(self) -> float:
        """The budget to name [s]: enough for the verdict and for the losses."""
        return max(self.settling_s, self.checking_s)


class Setting(NamedTuple):
    """A setting that was tried, as the answer has it.

    ``roles`` are keys of ``ROLES``. ``outcome`` is ``ok`` if one run succeeded, else
    how the last one failed. ``memory_shortage`` says why the setting leaves too little
    memory, ``failed_later`` how it failed after it had run; ``diverges``: FP8 may not
    be chosen there. ``value`` is its objective, ``is_scaled`` if that is below what its
    own runs measured (see ``decide``). ``peak_gib`` is the highest of its runs [GiB], 0
    if unknown. ``vs_baseline`` and ``vs_chosen`` are ratios, ``pairs`` counts the pairs
    of runs with the chosen setting, ``trials`` are those that give the value.
    ``on_frontier``: no other eligible one is better and needs no more memory.
    """

    point: Point
    roles: tuple[str, ...]
    outcome: str
    runs: int
    is_eligible: bool
    memory_shortage: str
    failed_later: str
    diverges: bool
    value: Estimate | None
    is_scaled: bool
    peak_gib: float
    vs_baseline: Estimate | None
    vs_chosen: Estimate | None
    pairs: int
    trials: tuple[int, ...]
    on_frontier: bool = False

    def data(self, space: Space) -> dict[str, Any]:
        """Return the setting as JSON."""
        fields = {name: as_data(value) for name, value in self._asdict().items()}
        del fields["point"]
        return {"knobs": space.values(self.point), **fields}


def setting_from(data: Mapping[str, Any], space: Space) -> Setting:
    """Return the setting in a JSON object.

    Raises ``KeyError``, ``TypeError`` and ``ValueError`` if it is none.
    """
    return Setting(
        point=space.point(data["knobs"]),
        roles=tuple(name for name in ROLES if name in data["roles"]),
        outcome=str(data["outcome"]),
        runs=int(data["runs"]),
        is_eligible=data["is_eligible"] is True,
        memory_shortage=str(data["memory_shortage"]),
        failed_later=str(data["failed_later"]),
        diverges=data["diverges"] is True,
        value=_estimate(data["value"]),
        is_scaled=data["is_scaled"] is True,
        peak_gib=float(data["peak_gib"]),
        vs_baseline=_estimate(data["vs_baseline"]),
        vs_chosen=_estimate(data["vs_chosen"]),
        pairs=int(data["pairs"]),
        trials=tuple(map(int, data["trials"])),
        on_frontier=data["on_frontier"] is True,
    )


def _estimate(data: Mapping[str, Any] | None) -> Estimate | None:
    if data is None:
        return None
    ends = (data["low"], data["high"])
    low, high = (None if end is None else float(end) for end in ends)
    return Estimate(float(data["value"]), low, high)


class Answer(NamedTuple):
    """The answer of a search.

    ``chosen`` is ``None`` if no setting that may be chosen ran. ``record`` is from its
    last trial, with the peaks of all its trials. ``pairs`` counts the pairs of
    interleaved runs that compare it with the baseline. Of the settings that may be
    chosen, ``tried`` had a trial and ``untried`` had none; ``settings`` has every one
    that had a trial. ``speed_changed`` is the lowest and the highest ratio of confirmed
    speed to search speed, if the machine became faster or slower in between.
    ``stability`` compares the losses of FP8 and bf16, by setting. ``answered_by`` is
    the code of the finding that answers the search.
    """

    chosen: Point | None
    verdict: str
    objective: str
    speed: Measured
    energy: Measured
    runner_up: Point | None
    record: Record | None
    pairs: int
    tried: int
    untried: int
    trials: int
    oom_trials: int
    seconds: float
    baseline_outcome: str
    settings: Mapping[Point, Setting]
    speed_changed: tuple[float, float] | None
    stability: Mapping[Point, Stability]
    ending: Ending
    findings: tuple[Finding, ...] = ()
    answered_by: str = ""

    @property
    def measured(self) -> Measured:
        """The settings in the objective."""
        return self.energy if self.objective == ENERGY else self.speed

    @property
    def measured_otherwise(self) -> Measured:
        """The settings in the other objective."""
        return self.speed if self.objective == ENERGY else self.energy

    @property
    def numbers(self) -> tuple[int, ...]:
        """The trials that give the value of the chosen setting."""
        return self.settings[self.chosen].trials if self.chosen else ()

    @property
    def runner_up_gain(self) -> Estimate | None:
        """How much faster the runner-up is than the chosen setting."""
        return self.settings[self.runner_up].vs_chosen if self.runner_up else None

    @property
    def memory_shortage(self) -> dict[Point, str]:
        """Why settings leave too little memory."""
        every = self.settings.items()
        return {p: why for p, own in every if (why := own.memory_shortage)}

    @property
    def broken(self) -> dict[Point, str]:
        """How settings failed that had run before."""
        every = self.settings.items()
        return {p: how for p, own in every if (how := own.failed_later)}

    @property
    def learns(self) -> Stability | None:
        """The comparison of losses at the chosen setting, if there is one."""
        return None if self.chosen is None else self.stability.get(self.chosen)

    @property
    def rejected(self) -> Mapping[Point, Stability]:
        """The settings that were not chosen for what FP8 learns there."""
        return {point: f for point, f in self.stability.items() if f.rejects}

    @property
    def is_conclusive(self) -> bool:
        """Whether the verdict is more than inconclusive."""
        return self.verdict != "inconclusive"

    def find(self, *codes: str) -> Finding | None:
        """Return the first finding with one of these codes."""
        return next((each for each in self.findings if each.code in codes), None)


def failure_code(trial: Trial) -> str:
    """Return how a trial failed: its outcome, or a more specific cause."""
    record = trial.record
    if trial.cut_off:
        return "cut-off"
    if record.outcome == "launch" and record.step_ms:
        return "does-not-count"
    if record.outcome == "launch" and record.stage_reached in STEPPING:
        return "died-in-its-steps"
    return "wrong-data" if record.error in DATA_ERRORS else record.outcome


def bad_data(trials: Iterable[Trial]) -> str:
    """Return why no setting can train on the data of the config, by the last trial."""
    failed = [t.record for t in trials if t.record.error == BAD_DATA]
    return failed[-1].message.removeprefix(f"{BAD_DATA}: ") if failed else ""


def changes(space: Space, baseline: Point, point: Point) -> dict[str, Any]:
    """Return the knobs in which a setting differs from the baseline."""
    return {
        knob.key: knob.values[new]
        for knob, old, new in zip(space.knobs, baseline, point, strict=True)
        if old != new
    }


def is_untied(outcome: Answer, plan: Plan) -> bool:
    """Return whether FP8 and bf16 were compared as different models."""
    knob = plan.space.knob("precision")
    if knob is None or not (outcome.learns or outcome.rejected):
        return False
    job = plan.config.job.with_values({knob.key: "fp8"})
    return bool(job.find("tied_embeddings")) and job.find("params.tied") is False
