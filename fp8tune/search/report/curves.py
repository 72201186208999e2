"""Series of steps: loss and gradient norm of FP8 and bf16, and step times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.search.extrapolation import extrapolation
from fp8tune.search.report.data import Case, Setting
from fp8tune.search.report.series import MAX_SERIES, middle
from fp8tune.search.report.words import clean, label
from fp8tune.search.stability.finding import Finding, curves, paired
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point


class Pair(NamedTuple):
    """The same setting in FP8 and in bf16, step by step from the first.

    ``norms`` are gradient norms and may be empty. A loss is the mean over ``parts``
    micro-batches.
    """

    label: str
    fp8: tuple[float, ...]
    bf16: tuple[float, ...]
    fp8_norms: tuple[float, ...]
    bf16_norms: tuple[float, ...]
    parts: int = 1

    @property
    def gaps(self) -> tuple[float, ...]:
        """The difference of loss at each step, relative to bf16's."""
        pairs = zip(self.fp8, self.bf16, strict=False)
        return tuple(a / b - 1 if b else 0.0 for a, b in pairs)

    @property
    def rounding(self) -> tuple[float, ...]:
        """How far each gap may be off because the losses were rounded to bf16.

        Empty where they were not.
        """
        if not all(_is_bf16(loss, self.parts) for loss in (*self.fp8, *self.bf16)):
            return ()
        pairs = zip(self.fp8, self.bf16, strict=False)
        return tuple((digit(a) + digit(b)) / 2 / b for a, b in pairs)


def digit(value: float) -> float:
    """The last digit of a value of bf16, which has eight bits."""
    return 2.0 ** (math.frexp(value)[1] - 8)


def _is_bf16(value: float, parts: int) -> bool:
    """Whether a value is a sum of so many of bf16, each about as large."""
    return value > 0 and (2 * value / digit(value / parts)).is_integer()


Series = Sequence[float]


class Seeds(NamedTuple):
    """Runs of one setting in FP8 and bf16 on the same seeds, in the seeds' order.

    A run that diverged may be shorter than the others.
    """

    label: str
    finding: Finding
    fp8: tuple[Series, ...]
    bf16: tuple[Series, ...]
    fp8_norms: tuple[Series, ...]
    bf16_norms: tuple[Series, ...]

    @property
    def gaps(self) -> tuple[Series, ...]:
        """FP8's loss above bf16's at each step, relative, of each seed."""
        return tuple(
            [a / b - 1 if b else 0.0 for a, b in zip(one, other, strict=False)]
            for one, other in zip(self.fp8, self.bf16, strict=True)
        )


class Steps(NamedTuple):
    """The step times of one run [ms]: number from 0, time, and why it was left out.

    That is ``""`` of a step that counted. ``role`` marks the setting. ``tokens`` are
    those of a step; ``made`` says that its one time was calculated from other runs'.
    """

    role: str
    label: str
    precision: str
    steps: tuple[tuple[int, float, str], ...]
    tokens: int = 0
    made: bool = False
    added_ms: float = 0.0

    @property
    def kept(self) -> list[float]:
        """The times that counted."""
        return [took for _, took, why in self.steps if not why]

    @property
    def median(self) -> float:
        """The median of the times that counted [ms]."""
        return middle(self.kept)

    @property
    def discarded(self) -> int:
        """How many did not count."""
        return len(self.steps) - len(self.kept)

    @property
    def reasons(self) -> list[str]:
        """Why some did not count, each reason once."""
        return list(dict.fromkeys(why for _, _, why in self.steps if why))


def pair(case: Case) -> Pair | None:
    """FP8 beside bf16 at the chosen setting, else at the given one, else at any."""
    marked = [case.found.chosen, case.plan.baseline, *(s.point for s in case.settings)]
    for point in marked:
        found = None if point is None else _pair(case, point)
        if found is not None:
            return found
    return None


def seeds(case: Case) -> Seeds | None:
    """The runs at the chosen setting, else at the last one that was compared."""
    told = case.found.stability
    point = case.found.chosen
    point = point if point in told else next(reversed(list(told)), None)
    if point is None:
        return None
    runs = curves(case.plan.space, case.trials)[point]
    pairs = paired(runs)[told[point].decisive.warmup_steps]
    if not all(run.losses for pair in pairs for run in pair):
        return None
    knobs = case.plan.space.knobs
    keys = {knob.key for knob in knobs if knob.role != "precision"}
    fp8, bf16 = zip(*pairs, strict=True)
    return Seeds(
        label(knobs, point, keys),
        told[point],
        *(tuple(run.losses for run in each) for each in (fp8, bf16)),
        *(tuple(run.norms for run in each) for each in (fp8, bf16)),
    )


def _pair(case: Case, point: Point) -> Pair | None:
    space = case.plan.space
    one = _with_losses(case, space.with_precision(point, "fp8"))
    other = _with_losses(case, space.with_precision(point, "bf16"))
    if one is None or other is None:
        return None
    keys = {knob.key for knob in space.knobs if knob.role != "precision"}
    return Pair(
        label(space.knobs, point, keys),
        one.losses[:MAX_SERIES],
        other.losses[:MAX_SERIES],
        one.grad_norms[:MAX_SERIES],
        other.grad_norms[:MAX_SERIES],
        parts=max(1, one.grad_accum),
    )


def _with_losses(case: Case, point: Point | None) -> Record | None:
    own = (s for s in case.settings if s.point == point)
    runs = [t.record for s in own for t in case.runs(s) if len(t.record.losses) > 1]
    return runs[-1] if runs else None


def timed(case: Case) -> list[Steps]:
    """The last run of each marked setting that has step times."""
    marked = [
        case.of_role(role)
        for role in ("chosen", "baseline", "bf16-baseline", "runner-up")
    ]
    unique = {s.point: s for s in marked if s is not None}
    made = (_timed(case, setting) for setting in unique.values())
    return [steps for steps in made if steps is not None]


def _timed(case: Case, setting: Setting) -> Steps | None:
    ran = [trial.record for trial in case.runs(setting) if trial.record.ok]
    records = [record for record in ran if any(record.step_ms)]
    if not records:
        return None
    record = records[-1]
    kept, every = record.step_ms[:MAX_SERIES], record.all_step_ms[:MAX_SERIES]
    if set(kept) <= set(every):
        first = len(every) - len(kept)
        left = _left(record, len(every)) or dict.fromkeys(range(first), "left out")
        steps = [(i, took, left.get(i, "")) for i, took in enumerate(every)]
    else:
        steps = [(i, took, "") for i, took in enumerate(kept, 1)]
    names = setting.marked, setting.short, setting.precision
    took_ms = middle(kept) + record.communication_ms
    tokens = round(record.tokens_per_second * took_ms / 1e3)
    made = len(kept) == 1 < len(every) and extrapolation(record) is not None
    return Steps(*names, tuple(steps), tokens, made, took_ms - middle(kept))


def _left(record: Record, count: int) -> dict[int, str]:
    """The steps that a record left out, and why; as far as anybody can read that."""
    found: dict[int, str] = {}
    for first, last, why in record.discarded:
        own = range(max(0, first), min(last + 1, count))
        found |= dict.fromkeys(own, clean(why, 24) or "left out")
    return found if len(found) < count else {}
