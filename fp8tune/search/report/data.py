"""What a report shows of a study: each setting once, with all that is known of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fp8tune.search.answer import LARGER_BUDGET, SAME_COMMAND, Answer, answer
from fp8tune.search.benefit import reached
from fp8tune.search.confirm import unconfirmed
from fp8tune.search.objective import SPEED, UNITS, by_objective
from fp8tune.search.plan import Plan
from fp8tune.search.prior import card_gib, prior_of_job
from fp8tune.search.report.fit import unfit
from fp8tune.search.report.words import label
from fp8tune.search.retries import last_process, trials_that_count, uncharged_seconds
from fp8tune.search.runs import Runs, by_point, during, speed_of
from fp8tune.search.sampler import Expected
from fp8tune.search.saved import SavedStudy
from fp8tune.search.statistics import Speed
from fp8tune.search.storage import is_searched
from fp8tune.trials.space import Knob, Point
from fp8tune.trials.trial import Trial, timed

ROLES = {
    "chosen": "chosen",
    "baseline": "your config",
    "bf16-baseline": "bf16 baseline",
    "runner-up": "runner-up",
}
"""What marks a setting, in the words of its readers."""


class Setting(NamedTuple):
    """One point that was tried.

    ``label`` has all knobs; ``short`` only those in which settings differ, and not
    the precision. ``roles`` are keys of ``ROLES``. Memory is
    the most that any of its runs had [GiB], 0 where none told; ``outcome`` is ``ok``
    where one run succeeded, else how the last one failed; ``free`` says whether it
    might be chosen, ``unfit`` why not though it ran and no knob speaks against it,
    ``front`` whether no other setting that is free is both faster and smaller.
    ``before`` and ``again`` are its speeds before the confirmation and in it: settings
    compare by the same of them, because the GPU may have changed in between.
    """

    point: Point
    label: str
    short: str
    roles: tuple[str, ...]
    precision: str
    free: bool
    outcome: str
    runs: int
    speed: Speed | None
    peak_gib: float
    reserved_gib: float
    expected: Expected
    front: bool = False
    before: Speed | None = None
    again: Speed | None = None
    unfit: str = ""

    @property
    def marked(self) -> str:
        """Its roles in words, or ``""``."""
        return " = ".join(ROLES[role] for role in self.roles)

    @property
    def place_gib(self) -> float:
        """Where it stands on a memory axis [GiB]: as measured, else as predicted."""
        return self.peak_gib or self.expected.peak_gib


class Case(NamedTuple):
    """A study with its answer and its settings; ``capacity_gib`` is the GPU's memory.

    ``ended`` says whether its search told its end and had run every confirmation.
    ``goals`` are the runs by the aim, ``before`` and ``again`` what settings reach of
    it before the confirmation and in it. ``running`` says whether the search is at work
    now, ``None`` where that cannot be told.
    """

    folder: str
    about: dict[str, Any]
    plan: Plan
    trials: Sequence[Trial]
    found: Answer
    settings: Sequence[Setting]
    capacity_gib: float
    ended: bool
    goals: Runs
    before: Mapping[Point, Speed]
    again: Mapping[Point, Speed]
    running: bool | None

    @property
    def name(self) -> str:
        """The study's own."""
        return os.path.basename(os.path.abspath(self.folder))

    @property
    def unit(self) -> str:
        """That of the aim."""
        return UNITS[self.found.aim]

    @property
    def output(self) -> str | None:
        """The tuned config that was written, ``""`` for none.

        ``None`` where the search has not told its end.
        """
        told = self.about.get("output")
        return told if isinstance(told, str) else None

    @property
    def timing(self) -> str:
        """Which trials are compared; ``""`` where all ran before the confirmation."""
        if not any(setting.again for setting in self.settings):
            return ""
        late = [s.label for s in self.settings if s.again and not s.before]
        left = f" Measured only after them: {'; '.join(late)}." if late else ""
        return (
            "What is compared here ran at one time: the trials before the confirmation."
            f"{left}"
        )

    @property
    def rehearsal(self) -> bool:
        """Whether its trials ran on a CPU."""
        told = any(trial.record.rehearsal for trial in self.trials)
        return told or self.about.get("device") == "cpu"

    @property
    def replay(self) -> bool:
        """Whether its trials are recorded ones."""
        return "records" in self.about

    def of_role(self, role: str) -> Setting | None:
        """The chosen, given or other marked setting, if there is one."""
        return next((s for s in self.settings if role in s.roles), None)

    def of_point(self, point: Point) -> Setting | None:
        """The setting of a point, if it was tried."""
        return next((s for s in self.settings if s.point == point), None)

    def runs(self, setting: Setting) -> list[Trial]:
        """The trials of a setting, in the order in which they were run."""
        point = self.plan.space.point
        return [t for t in timed(self.trials) if point(t.record.knobs) == setting.point]


def case(study: SavedStudy) -> Case:
    """Everything about a study that its report shows."""
    plan, trials = study.plan, study.trials
    now = last_process(trials)
    known = trials_that_count(trials, now)
    spent = sum(trial.record.cost_s for trial in trials)
    spent -= uncharged_seconds(trials, now)
    aim = str(study.about.get("objective", SPEED))
    found = answer(plan.space, plan.baseline, known, spent, aim)
    found = found._replace(trials=len(trials))
    written = isinstance(study.about.get("output"), str)
    more = study.about.get("more", LARGER_BUDGET) if written else SAME_COMMAND
    unchecked = study.about.get("unchecked", "")
    found = found._replace(unchecked=str(unchecked), more=str(more))
    runs = by_point(plan.space, trials)
    wanted = by_objective(trials, aim)
    goals = by_point(plan.space, wanted)
    settled = unconfirmed(plan.space, plan.baseline, by_objective(known, aim)) is None
    ended = written and bool(trials) and settled
    told = [trial.record.capacity_gib for trial in trials]
    capacity = max(told, default=0.0) or card_gib(plan.config.job)
    every = _settings(plan, runs, found)
    return Case(
        study.folder,
        study.about,
        plan,
        trials,
        found,
        every,
        capacity,
        ended,
        goals,
        during(goals, confirmation=False),
        during(goals, confirmation=True),
        False if written else is_searched(study.folder),
    )


def _settings(plan: Plan, runs: Runs, found: Answer) -> list[Setting]:
    expected = prior_of_job(plan.space, plan.config.job)
    roles = _roles(plan, runs, found)
    knobs = plan.space.knobs
    telling = _telling(knobs, list(runs))
    before, after = (during(runs, confirmation=stage) for stage in (False, True))
    wrong = {point: unfit(plan.space, found, point) for point in runs}
    every = [
        Setting(
            point,
            label(knobs, point),
            label(knobs, point, telling) or label(knobs, point),
            tuple(role for role, marked in roles.items() if marked == point),
            str(plan.space.value(point, "precision") or ""),
            plan.space.allows(point, plan.baseline) and not wrong[point],
            "ok" if any(t.record.ok for t in own) else own[-1].record.outcome,
            len(own),
            speed_of(runs, point),
            max(t.record.peak_gib for t in own),
            max(t.record.reserved_gib for t in own),
            expected(point),
            before=before.get(point),
            again=after.get(point),
            unfit=wrong[point],
        )
        for point, own in runs.items()
    ]
    front = frontier(every)
    return [setting._replace(front=setting.point in front) for setting in every]


def _roles(plan: Plan, runs: Runs, found: Answer) -> dict[str, Point | None]:
    """The marked points. The twin is the bf16 setting whose speed the answer names."""
    pair = reached(found).pair
    in_bf16 = (p for p in runs if plan.space.value(p, "precision") == "bf16")
    twins = (p for p in in_bf16 if found.twin and speed_of(runs, p) == found.twin)
    return {
        "chosen": found.chosen,
        "baseline": plan.baseline,
        "bf16-baseline": pair.bf16 if pair else next(twins, None),
        "runner-up": found.runner_up,
    }


def frontier(settings: Iterable[Setting]) -> set[Point]:
    """The points that may be chosen and that none beats in both speed and memory.

    By their speeds before the confirmation.
    """
    best, front = 0.0, set()
    placed = [s for s in settings if s.free and s.before and s.peak_gib]
    for setting in sorted(placed, key=lambda s: (s.peak_gib, -_value(s))):
        if _value(setting) > best:
            best = _value(setting)
            front.add(setting.point)
    return front


def _value(setting: Setting) -> float:
    return setting.before.value if setting.before else 0.0


def _telling(knobs: Sequence[Knob], points: Sequence[Point]) -> set[str]:
    """The keys of knobs, but for the precision, in which points differ."""
    places = zip(knobs, *points, strict=True)
    return {
        knob.key
        for knob, *values in places
        if len(set(values)) > 1 and knob.role != "precision"
    }
