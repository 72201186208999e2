"""What a search found: the chosen setting, the verdict, and findings with codes.

``decide`` decides them; ``wording`` has the sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fp8tune.search.answer.choice import (
    Fp8Pair,
)
from fp8tune.search.losses.findings import Stability
from fp8tune.search.objective import ENERGY
from fp8tune.search.plan import Plan
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

SAME_COMMAND, LARGER_BUDGET, NOTHING_MORE = "same-command", "larger-budget", ""
"""What would tell more than an outcome."""


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


class Finding(NamedTuple):
    """One statement about a search: a stable code and its facts.

    ``facts`` are numbers, estimates, texts, and settings as the knobs that differ from
    the baseline.
    """

    code: str
    facts: Mapping[str, Any] = {}

    def data(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return {
            name: value._asdict() if isinstance(value, Estimate) else value
            for name, value in self.facts.items()
            if name != "text"
        }


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


class Answer(NamedTuple):
    """The outcome of a search.

    ``chosen`` is ``None`` if no setting that may be chosen ran. ``record`` is from its
    last trial, with the peaks of all its trials; ``numbers`` are the trials that give
    its value. ``pairs`` counts the pairs of interleaved runs that compare it with the
    baseline. Of the settings that may be chosen, ``tried`` had a trial and ``untried``
    had none. ``memory_shortage`` says why settings leave too little memory, ``broken``
    how settings failed that had run before. ``stability`` compares the losses of FP8
    and bf16, by setting.
    """

    chosen: Point | None
    verdict: str
    objective: str
    speed: Measured
    energy: Measured
    runner_up: Point | None
    runner_up_gain: Estimate | None
    record: Record | None
    numbers: tuple[int, ...]
    pairs: int
    tried: int
    untried: int
    trials: int
    oom_trials: int
    seconds: float
    baseline_outcome: str
    memory_shortage: Mapping[Point, str]
    broken: Mapping[Point, str]
    stability: Mapping[Point, Stability]
    ending: Ending
    findings: tuple[Finding, ...] = ()

    @property
    def measured(self) -> Measured:
        """The settings in the objective."""
        return self.energy if self.objective == ENERGY else self.speed

    @property
    def measured_otherwise(self) -> Measured:
        """The settings in the other objective."""
        return self.speed if self.objective == ENERGY else self.energy

    @property
    def learns(self) -> Stability | None:
        """The comparison of losses at the chosen setting, if there is one."""
        return None if self.chosen is None else self.stability.get(self.chosen)

    @property
    def rejected(self) -> Mapping[Point, Stability]:
        """The settings that were not chosen because FP8 diverges there."""
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
