"""What a report shows of a study: its answer in words, and each setting once.

No other module of the report reads the fields of an answer.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fp8tune.report.text import (
    capital,
    clean,
    gib,
    number,
    plural,
    setting_label,
)
from fp8tune.search.answer import LARGER_BUDGET, SAME_COMMAND, Answer, answer
from fp8tune.search.benefit import reached
from fp8tune.search.closing import (
    advice,
    change,
    closing,
    mending,
    nothing_else,
    standing,
    unfinished,
    unsettled,
)
from fp8tune.search.eligible import eligible
from fp8tune.search.failed import WORDS
from fp8tune.search.objective import SPEED, UNITS, by_objective
from fp8tune.search.plan import Plan
from fp8tune.search.prior import card_gib, prior_of_job
from fp8tune.search.reasons import choices, summary
from fp8tune.search.retries import last_process, trials_that_count, uncharged_seconds
from fp8tune.search.runs import (
    Runs,
    by_point,
    confirmed,
    drift_warning,
    during,
    gap,
    speed_of,
)
from fp8tune.search.sampler import Expected
from fp8tune.search.saved import SavedStudy
from fp8tune.search.stability.compare import LossVerdict
from fp8tune.search.stability.findings import Stability, verdict_line
from fp8tune.search.statistics import Speed
from fp8tune.search.storage import is_searched
from fp8tune.search.writeback import Choice
from fp8tune.trials.space import Point
from fp8tune.trials.trial import Trial, timed

ROLES = {
    "chosen": "chosen",
    "baseline": "your config",
    "bf16-baseline": "bf16 baseline",
    "runner-up": "runner-up",
}
"""The roles that a setting may have, as the page names them."""
CUT_OFF = "cut off by the budget"
"""The outcome of a setting whose trials the end of the budget cut off."""
MAX_SENTENCE = 1000
"""Longest sentence [characters]."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One point that was tried.

    ``label`` names all knobs, ``short_label`` those in which the tried settings differ.
    ``roles`` are keys of ``ROLES``. ``outcome`` is ``ok`` if one run succeeded, else
    how the last one failed. ``why_not`` says why a setting that ran may not be chosen.
    ``value`` is what it reaches of the objective, on the scale of the chosen setting's
    figure in the answer; ``speed`` is the same in tokens/s. ``peak_gib`` is the highest
    of all its runs [GiB], 0 if unknown. ``on_frontier``: no other setting that may be
    chosen reaches more in as much memory.
    """

    point: Point
    label: str
    short_label: str
    roles: tuple[str, ...]
    precision: str
    outcome: str
    runs: int
    may_be_chosen: bool
    why_not: str
    value: Speed | None
    speed: Speed | None
    peak_gib: float
    expected: Expected
    on_frontier: bool = False

    @property
    def role_names(self) -> str:
        """Its roles in words, or ``""``."""
        return " = ".join(ROLES[role] for role in self.roles)

    @property
    def key_value(self) -> float:
        """Its value as a number to sort by, 0 if it has none."""
        return self.value.value if self.value else 0.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """A study with its answer and its settings.

    ``runs`` are the timed trials by setting, by the objective. ``is_running`` says
    whether the search is at work now; ``None`` if locks cannot tell.
    """

    study: SavedStudy
    answer: Answer
    settings: Sequence[Setting]
    runs: Runs
    is_running: bool | None

    @property
    def plan(self) -> Plan:
        """The plan of the search."""
        return self.study.plan

    @property
    def objective(self) -> str:
        """The objective of the search."""
        return self.answer.aim

    @property
    def unit(self) -> str:
        """The unit of the objective."""
        return UNITS[self.objective]

    @property
    def chosen(self) -> Point | None:
        """The chosen setting."""
        return self.answer.chosen

    @property
    def seconds(self) -> float:
        """The part of the budget that was spent [s]."""
        return self.answer.seconds

    @property
    def output(self) -> str | None:
        """The tuned config, ``""`` if none was written, ``None`` before the end."""
        output = self.study.about.get("output")
        return output if isinstance(output, str) else None

    @property
    def is_rehearsal(self) -> bool:
        """Whether the trials ran on a CPU."""
        on_cpu = any(trial.record.rehearsal for trial in self.study.trials)
        return on_cpu or self.study.about.get("device") == "cpu"

    @property
    def is_replay(self) -> bool:
        """Whether the trials are recorded ones."""
        return "records" in self.study.about

    @property
    def capacity_gib(self) -> float:
        """The memory of the GPU [GiB], 0 if unknown."""
        measured = (trial.record.capacity_gib for trial in self.study.trials)
        return max(measured, default=0.0) or card_gib(self.plan.config.job)

    @property
    def stability(self) -> Mapping[Point, Stability]:
        """The comparison of losses at each setting that has one."""
        return self.answer.stability

    @property
    def fp8_diverges(self) -> bool:
        """Whether nothing is proposed because FP8 diverges."""
        return self.chosen is None and bool(self.answer.rejected)

    @property
    def bf16_wins(self) -> bool:
        """Whether bf16 is faster than FP8, or FP8 diverges."""
        gain = reached(self.answer).fp8
        return self.fp8_diverges or (gain is not None and gain.high < 1)

    @property
    def goes_on(self) -> bool:
        """Whether the same search with more time would tell more."""
        kept = self.chosen in (None, self.plan.baseline)
        is_open = not self.answer.confirmed or self.output is None
        is_open |= kept and self.answer.verdict == "inconclusive"
        return bool(self.answer.more) and is_open and not self.fp8_diverges

    @property
    def changes(self) -> Sequence[Choice]:
        """The keys that the tuned config changes."""
        return choices(self.plan, self.answer)

    @property
    def comment(self) -> Sequence[str]:
        """What the tuned config says of the search, the verdict first."""
        return summary(self.plan, self.answer, self.study.name)

    def with_role(self, role: str) -> Setting | None:
        """Return the setting that has a role, if it was tried."""
        return next((s for s in self.settings if role in s.roles), None)

    def trials_of(self, point: Point) -> list[Trial]:
        """Return the timed trials of a setting, as they were recorded."""
        at = self.plan.space.point
        return [t for t in timed(self.study.trials) if at(t.record.knobs) == point]

    def gain_over(self, other: Point) -> Speed | None:
        """Return how much more the chosen setting reaches than another one."""
        return gap(self.runs, self.chosen, other)


def read_report(study: SavedStudy) -> Report:
    """Return everything about a study that its report shows."""
    objective = str(study.about.get("objective", SPEED))
    found = _answer(study, objective)
    ended = isinstance(study.about.get("output"), str)
    return Report(
        study=study,
        answer=found,
        settings=_settings(study.plan, study.trials, found),
        runs=by_point(study.plan.space, by_objective(study.trials, objective)),
        is_running=False if ended else is_searched(study.folder),
    )


def _answer(study: SavedStudy, objective: str) -> Answer:
    """Return the answer of the trials, with what the search noted at its end."""
    trials, about = study.trials, study.about
    process = last_process(trials)
    spent = sum(t.record.cost_s for t in trials) - uncharged_seconds(trials, process)
    counted = trials_that_count(trials, process)
    found = answer(study.plan.space, study.plan.baseline, counted, spent, objective)
    ended = isinstance(about.get("output"), str)
    return found._replace(
        trials=len(trials),
        unchecked=str(about.get("unchecked", "")),
        more=str(about.get("more", LARGER_BUDGET)) if ended else SAME_COMMAND,
    )


def _settings(plan: Plan, trials: Sequence[Trial], found: Answer) -> list[Setting]:
    space, objective = plan.space, found.aim
    runs = by_point(space, trials)
    roles = _roles(plan, runs, found)
    speeds = _on_one_scale(runs, found.chosen, _answered(plan, found, SPEED))
    values = speeds
    if objective != SPEED:
        converted = by_point(space, by_objective(trials, objective))
        answered = _answered(plan, found, objective)
        values = _on_one_scale(converted, found.chosen, answered)
    expected = prior_of_job(space, plan.config.job)
    free = set(eligible(space, plan.baseline, trials))
    varied = {
        knob.key
        for place, knob in enumerate(space.knobs)
        if knob.role != "precision" and len({point[place] for point in runs}) > 1
    }
    settings = [
        Setting(
            point=point,
            label=setting_label(space.knobs, point),
            short_label=setting_label(space.knobs, point, varied or None),
            roles=tuple(role for role, marked in roles.items() if marked == point),
            precision=str(space.value(point, "precision") or ""),
            outcome=_outcome(own),
            runs=len(own),
            may_be_chosen=point in free and point not in found.unfit,
            why_not=found.unfit.get(point) or _why_not(plan, found, point, own, free),
            value=values.get(point),
            speed=speeds.get(point),
            peak_gib=max(trial.record.peak_gib for trial in own),
            expected=expected(point),
        )
        for point, own in runs.items()
    ]
    front = frontier(settings)
    return [
        dataclasses.replace(setting, on_frontier=setting.point in front)
        for setting in settings
    ]


def _roles(plan: Plan, runs: Runs, found: Answer) -> dict[str, Point | None]:
    """Return the point that has each role."""
    pair, space = reached(found).pair, plan.space
    in_bf16 = [
        space.with_precision(p, "bf16") for p in (found.chosen, plan.baseline) if p
    ]
    return {
        "chosen": found.chosen,
        "baseline": plan.baseline,
        "bf16-baseline": pair.bf16
        if pair
        else next((p for p in in_bf16 if p in runs), None),
        "runner-up": found.runner_up,
    }


def _answered(plan: Plan, found: Answer, objective: str) -> dict[Point, Speed]:
    """Return the figures of the answer by their settings."""
    compared = reached(found, aimed_at=objective == found.aim)
    figures = {found.chosen: compared.chosen, plan.baseline: compared.given}
    if compared.pair and compared.pair.fp8 == found.chosen:
        figures[compared.pair.bf16] = compared.twin
    return {point: speed for point, speed in figures.items() if point and speed}


def _on_one_scale(
    runs: Runs, chosen: Point | None, answered: Mapping[Point, Speed]
) -> dict[Point, Speed]:
    """Return how fast each setting is, so that all compare with the chosen one.

    The machine may have changed between the search and the confirmation. A setting
    that was only measured before it is scaled by how the chosen one has changed since.
    """
    before = during(runs, confirmation=False)
    mine = answered.get(chosen) if chosen else None
    scale = mine.value / before[chosen].value if mine and chosen in before else 1.0
    speeds = dict(answered)
    for point, own in runs.items():
        measured = speed_of(runs, point)
        if point in speeds or measured is None:
            continue
        ratio = gap(runs, point, chosen) if confirmed(own) else None
        if ratio and mine:
            factor = mine.value * ratio.value / measured.value
        else:
            factor = 1.0 if confirmed(own) else scale
        speeds[point] = Speed(*(factor * end for end in measured))
    return speeds


def _outcome(trials: Sequence[Trial]) -> str:
    """Return ``ok`` if one of the trials succeeded, else how the last one ended."""
    if any(trial.record.ok for trial in trials):
        return "ok"
    ended = [trial.record.outcome for trial in trials if not trial.cut_off]
    return ended[-1] if ended else CUT_OFF


def _why_not(
    plan: Plan, found: Answer, point: Point, own: Sequence[Trial], free: set[Point]
) -> str:
    """Return why a setting that ran may not be chosen, if that is not by its memory."""
    if outcome := found.broken.get(point):
        return f"failed in another run: {WORDS[outcome]}"
    ran = plan.space.allows(point, plan.baseline) and _outcome(own) == "ok"
    return "FP8 diverges" if ran and found.rejected and point not in free else ""


def frontier(settings: Iterable[Setting]) -> set[Point]:
    """Return the settings that no other one beats in both value and memory."""
    best, front = 0.0, set()
    placed = [s for s in settings if s.may_be_chosen and s.value and s.peak_gib]
    for setting in sorted(placed, key=lambda s: (s.peak_gib, -s.key_value)):
        if setting.key_value > best:
            best = setting.key_value
            front.add(setting.point)
    return front


def headline(report: Report) -> str:
    """Return the answer in one line, as the tuned config and the terminal begin."""
    found = report.answer
    if not report.study.trials:
        return "No trial has ended yet"
    if report.fp8_diverges:
        return "No setting is proposed: FP8 diverges where bf16 does not"
    if found.chosen is None:
        return f"No trial succeeded{' yet' * (report.output is None)}"
    if found.learns and found.learns.may_diverge:
        return "Inconclusive: FP8 may diverge"
    if found.chosen != report.plan.baseline:
        return capital(report.comment[0])
    if found.verdict == "inconclusive":
        return f"Inconclusive: {unfinished(found)}: your config stays"
    if found.runner_up is None:
        return f"{capital(nothing_else(found))}: your config stays"
    return capital(standing(found))


def warnings(report: Report) -> Iterator[str]:
    """Yield what must be known before the answer is believed."""
    found, trials = report.answer, report.study.trials
    if report.is_rehearsal:
        yield (
            "A rehearsal on a CPU. The trials are real FP8 training, but nothing here "
            "tells how fast a GPU is, nor whether FP8 pays."
        )
    if report.is_replay:
        yield (
            "A replay of recorded trials under simulated time. Nothing was measured "
            "for this report."
        )
    methods = Counter(how for t in trials if (how := t.record.extrapolated))
    if methods:
        count = f"{methods.total()} of {plural(len(trials), 'trial')}"
        method = clean(methods.most_common(1)[0][0])
        yield f"Extrapolated, not measured whole ({count}): {method}."
    if changed := drift_warning(by_point(report.plan.space, trials)):
        yield changed
    if found.learns and found.learns.verdict == LossVerdict.OUTSIDE:
        yield f"More tokens may not be worth it: {verdict_line(found.learns)}."
    if report.output is None:
        states = {True: "still runs", False: "was cut off before its end"}
        doubt = "still runs, or was cut off"
        state = doubt if report.is_running is None else states[report.is_running]
        yield f"The search {state}. The answer may change."
    elif found.more and not found.confirmed:
        yield f"{unsettled(found)}. The answer may change."


def sentences(report: Report) -> Iterator[str]:
    """Yield the terminal's lines as sentences, and what only the page says."""
    found, plan, study = report.answer, report.plan, report.study
    *lines, counted = closing(found, plan, "")
    if found.chosen is None:
        lines += advice(plan, study.trials, found.seconds)
        if not report.is_replay:
            lines += mending(study.trials, rehearsed=report.is_rehearsal)
    yield from map(_sentence, lines)
    chosen, runner_up = report.with_role("chosen"), report.with_role("runner-up")
    if chosen is None:
        return
    if chosen.peak_gib:
        capacity = 0.0 if report.is_rehearsal else report.capacity_gib
        of = f" of {capacity:.1f}" if capacity else ""
        where = "of the process" if report.is_rehearsal else "allocated"
        yield f"Peak memory {gib(chosen.peak_gib)}{of} GiB {where}."
    if not reached(found).twin:
        yield "No bf16 baseline was measured: what FP8 gains is not known."
    if runner_up and found.behind:
        yield (
            f"Runner-up: {runner_up.label}, {number(runner_up.key_value)} "
            f"{report.unit}: {change(found.behind)} compared with the chosen one."
        )
    known = found.learns or found.unchecked or report.is_replay
    if not known and chosen.precision == "fp8":
        yield "Stability was not checked: no run compares FP8's losses with bf16's."
    start = study.about.get("start")
    if isinstance(start, dict) and start.get("study"):
        how = clean(str(start.get("said")))
        yield f"The search {how}. None of that study's trials is counted here."
    yield f"{_sentence(counted)} Intervals are 95 % and count the spread between runs."


def _sentence(line: str) -> str:
    """Return a line of the terminal as a sentence."""
    return f"{capital(clean(line, MAX_SENTENCE))}."
