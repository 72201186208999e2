"""The data of a report: a study's answer in words, and each tried setting once.

This is the only module of the report that reads the fields of an outcome.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fp8tune.lint.wording import counted
from fp8tune.report.text import capital, interval
from fp8tune.search.answer.answer import (
    SAME_COMMAND,
    Answer,
    Ending,
    Estimate,
    Finding,
)
from fp8tune.search.answer.decide import decide, estimate, gain_of, with_config
from fp8tune.search.answer.wording import (
    FAILURES,
    change,
    clean,
    describe,
    gib,
    message,
    messages,
    setting_label,
)
from fp8tune.search.budget import MAX_S
from fp8tune.search.history import History, Runs
from fp8tune.search.losses.compare import LossVerdict
from fp8tune.search.losses.findings import Stability, verdict_line
from fp8tune.search.objective import ENERGY, SPEED, UNITS
from fp8tune.search.plan import Plan
from fp8tune.search.prior import card_gib, prior_of_job
from fp8tune.search.sampler import Expected
from fp8tune.search.saved_study import SavedStudy
from fp8tune.search.statistics import Speed
from fp8tune.search.storage import is_searched
from fp8tune.search.write.output import counts
from fp8tune.trials.space import Point
from fp8tune.trials.trial import (
    Trial,
    charged_seconds,
    timed,
    trials_that_counted,
)

STANDINGS = {
    "chosen": "chosen",
    "baseline": "your config",
    "bf16-baseline": "bf16 baseline",
    "runner-up": "runner-up",
}
"""What a setting may be in the answer, as the page names it."""
CUT_OFF = FAILURES["cut-off"]
"""The outcome of a setting whose trials the end of the budget cut off."""
BEFORE_ANSWER = (
    *("fp8-may-diverge", "fp8-rejected", "setting-rejected"),
    *("fp8-slower-than-bf16", "fp8-as-fast-as-bf16"),
)
"""Findings that may come before the one that answers the search."""
MAX_SENTENCE = 1000
"""Longest sentence [characters]."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting that was tried.

    ``label`` names all knobs, ``short_label`` those in which the tried settings differ.
    ``standings`` are keys of ``STANDINGS``. ``outcome`` is ``ok`` if one run succeeded,
    else how the last one failed. ``why_not`` says why a setting that ran may not be
    chosen. ``value`` is its objective, ``speed`` the same in tokens/s; ``scaled`` says
    whether it is below what its runs measured (see ``_figures``). ``peak_gib`` is the
    highest of all its runs [GiB], 0 if unknown. ``on_frontier``: no other setting that
    may be chosen is better and needs no more memory.
    """

    point: Point
    label: str
    short_label: str
    standings: tuple[str, ...]
    precision: str
    outcome: str
    runs: int
    may_be_chosen: bool
    why_not: str
    value: Estimate | None
    speed: Estimate | None
    scaled: bool
    peak_gib: float
    expected: Expected
    on_frontier: bool = False

    @property
    def role_names(self) -> str:
        """Its standings in words, or ``""``."""
        return " = ".join(STANDINGS[name] for name in self.standings)

    @property
    def key_value(self) -> float:
        """Its value as a number to sort by, 0 if it has none."""
        return self.value.value if self.value else 0.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """A study, its answer and its settings.

    ``history`` has the trials that count, in tokens/s. ``is_running`` says whether the
    search is running now; ``None`` if the file system has no locks.
    """

    study: SavedStudy
    outcome: Answer
    settings: Sequence[Setting]
    history: History
    is_running: bool | None

    @property
    def plan(self) -> Plan:
        """The plan of the search."""
        return self.study.plan

    @property
    def objective(self) -> str:
        """The objective of the search."""
        return self.outcome.objective

    @property
    def history_in_objective(self) -> History:
        """The history in the objective of the search."""
        return self.history.by(self.objective)

    @property
    def unit(self) -> str:
        """The unit of the objective."""
        return UNITS[self.objective]

    @property
    def chosen(self) -> Point | None:
        """The chosen setting."""
        return self.outcome.chosen

    @property
    def seconds(self) -> float:
        """The part of the budget that was spent [s]."""
        return self.outcome.seconds

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
        return self.outcome.stability

    def with_standing(self, name: str) -> Setting | None:
        """Return the setting that has a role, if it was tried."""
        return next((s for s in self.settings if name in s.standings), None)

    def trials_of(self, point: Point) -> list[Trial]:
        """Return the timed trials of a setting, as they were recorded."""
        at = self.plan.space.point
        return [t for t in timed(self.study.trials) if at(t.record.knobs) == point]

    def gain_over(self, other: Point) -> Estimate | None:
        """Return the chosen setting's objective relative to another one's."""
        return gain_of(self.history_in_objective, self.chosen, other)

    def vs_chosen(self, point: Point) -> str:
        """Return how much faster than the chosen one a setting is, by pairs of runs."""
        history = self.history_in_objective
        gain = gain_of(history, point, self.chosen)
        if gain is None or not history.pairs(point, self.chosen):
            return "-"
        return "inconclusive" if gain.low is None else change(gain)

    def figure(self, setting: Setting) -> str:
        """Return the objective of a setting with its interval, and if it is scaled."""
        scaled = ", scaled down" * setting.scaled
        return f"{interval(setting.value, self.objective)}{scaled}"


def read_report(study: SavedStudy) -> Report:
    """Return everything about a study that its report shows."""
    objective = str(study.about.get("objective", SPEED))
    plan = study.plan
    history = History(plan.space, plan.baseline, trials_that_counted(study.trials))
    outcome = _outcome_of(study, history, objective)
    ended = isinstance(study.about.get("output"), str)
    return Report(
        study=study,
        outcome=outcome,
        settings=_settings(plan, history, outcome),
        history=history,
        is_running=study.has_workers or (not ended and is_searched(study.folder)),
    )


def _outcome_of(study: SavedStudy, history: History, objective: str) -> Answer:
    """Return the outcome of the trials, with what the search recorded at its end."""
    trials, plan = study.trials, study.plan
    spent, ending = charged_seconds(trials), _ending(study.about)
    outcome = decide(history, spent, objective, ending)
    outcome = outcome._replace(trials=len(trials))
    device = "" if "records" in study.about else str(study.about.get("device"))
    return with_config(outcome, plan, trials, device)


def _ending(about: Mapping[str, Any]) -> Ending:
    """Return how the search ended, by its record."""
    if not isinstance(about.get("output"), str):
        return Ending(SAME_COMMAND)
    match about.get("ending"):
        case {
            "next_step": str(step),
            "settling_s": float(seconds),
            "unchecked": str(why),
            **rest,
        }:
            return Ending(step, _budget(seconds), why, _budget(rest.get("checking_s")))
    return Ending()


def _budget(seconds: Any) -> float:
    """Return a recorded budget [s], 0 if it is none."""
    known = isinstance(seconds, float) and 0 < seconds <= MAX_S
    return seconds if known else 0.0


def _settings(plan: Plan, history: History, outcome: Answer) -> list[Setting]:
    space, objective, runs = plan.space, outcome.objective, history.settings
    standings = _standings(plan, history, outcome)
    speeds = _figures(history, outcome.chosen, _decided(plan, outcome, SPEED))
    values, wanted = speeds, history.by(objective)
    if objective != SPEED:
        decided = _decided(plan, outcome, objective)
        values = _figures(wanted, outcome.chosen, decided)
    expected = prior_of_job(space, plan.config.job)
    free = set(history.eligible)
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
            standings=tuple(
                name for name, marked in standings.items() if marked == point
            ),
            precision=str(space.value(point, "precision") or ""),
            outcome=_outcome(own),
            runs=len(own),
            may_be_chosen=point in free and point not in outcome.memory_shortage,
            why_not=outcome.memory_shortage.get(point)
            or _why_not(plan, outcome, point, own, free),
            value=values.get(point),
            speed=speeds.get(point),
            scaled=_is_scaled(wanted, outcome.chosen, point, values.get(point)),
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


def _standings(
    plan: Plan, history: History, outcome: Answer
) -> dict[str, Point | None]:
    """Return the point that has each role."""
    pair, space = outcome.measured.pair, plan.space
    in_bf16 = [
        space.with_precision(p, "bf16") for p in (outcome.chosen, plan.baseline) if p
    ]
    return {
        "chosen": outcome.chosen,
        "baseline": plan.baseline,
        "bf16-baseline": pair.bf16
        if pair
        else next((p for p in in_bf16 if history.runs(p)), None),
        "runner-up": outcome.runner_up,
    }


def _decided(plan: Plan, outcome: Answer, objective: str) -> dict[Point, Estimate]:
    """Return the figures of the outcome by their settings."""
    measured = outcome.energy if objective == ENERGY else outcome.speed
    figures = {outcome.chosen: measured.chosen, plan.baseline: measured.baseline}
    if measured.pair and measured.pair.fp8 == outcome.chosen:
        figures[measured.pair.bf16] = measured.bf16_baseline
    return {point: figure for point, figure in figures.items() if point and figure}


def _figures(
    history: History, chosen: Point | None, decided: Mapping[Point, Estimate]
) -> dict[Point, Estimate]:
    """Return how fast each setting is by its own runs.

    The runs are those that compare with the chosen setting. If there are none in the
    confirmation and the chosen setting became slower there, the machine may have: the
    figure is scaled down by as much. A figure is never above all its runs.
    """
    mine = decided.get(chosen) if chosen else None
    figures = dict(decided)
    for point in history.settings:
        measured, beside = history.speeds(point, chosen)
        if point in figures or measured is None:
            continue
        before = history.gap(point, chosen) and not history.pairs(point, chosen)
        if mine and beside and before:
            factor = min(1.0, mine.value / beside.value)
            measured = Speed(*(factor * end for end in measured))
        if figure := estimate(measured, len(history.counted_runs(point, chosen))):
            figures[point] = figure
    return figures


def _is_scaled(
    history: History, chosen: Point | None, point: Point, figure: Estimate | None
) -> bool:
    """Return whether a figure is below all runs that give it."""
    runs = history.counted_runs(point, history.baseline if point == chosen else chosen)
    speeds = [trial.record.tokens_per_second for trial in runs]
    return figure is not None and figure.value < min(speeds, default=0.0) * (1 - 1e-9)


def _outcome(own: Runs) -> str:
    """Return ``ok`` if one of the trials succeeded, else how the last one ended."""
    return "ok" if own.ran else own.failed_always or CUT_OFF


def _why_not(
    plan: Plan, outcome: Answer, point: Point, own: Runs, free: set[Point]
) -> str:
    """Return why a setting that ran may not be chosen, memory aside."""
    if failed := outcome.broken.get(point):
        return f"failed in another run: {FAILURES[failed]}"
    ran = plan.space.allows(point, plan.baseline) and _outcome(own) == "ok"
    return "FP8 diverges" if ran and outcome.rejected and point not in free else ""


def _drift(history: History) -> str:
    """Return by how much the machine's speed changed during the search, else ``""``."""
    if history.most_at_once > 1:
        return ""  # repeats alone are faster; the answer says by how much
    if history.changed_apart:
        least, most = min(history.changes), max(history.changes)
        return (
            "The settings' speeds changed: when repeated, one ran at "
            f"{100 * least:.0f} % of its first speed, another at {100 * most:.0f} %. "
            "More runs would show whether single runs were bad or the machine changed."
        )
    if history.speed_changed:
        return (
            "The machine's speed changed during the search: settings that were "
            f"repeated ran at {100 * history.drift:.0f} % of their first speed. "
            "Compare only trials of the confirmation."
        )
    return ""


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
    """Return the answer in one line: the first finding that is not a warning."""
    if not report.study.trials:
        return "No trial has ended yet"
    if report.outcome.find("fp8-may-diverge"):
        return "Inconclusive: FP8 may diverge"
    yet = " yet" * (report.output is None and report.chosen is None)
    return f"{capital(clean(message(_answer(report)), MAX_SENTENCE))}{yet}"


def _answer(report: Report) -> Finding:
    """Return the finding that answers the search, whatever FP8 gains."""
    findings = report.outcome.findings
    return next(each for each in findings if each.code not in BEFORE_ANSWER)


def warnings(report: Report) -> Iterator[str]:
    """Yield what a reader must know before trusting the answer."""
    learns, trials = report.outcome.learns, report.study.trials
    if report.is_rehearsal:
        yield (
            "A rehearsal on a CPU. The trials are real FP8 training, but they do not "
            "show how fast a GPU is, nor whether FP8 pays."
        )
    if report.is_replay:
        yield (
            "A replay of recorded trials under simulated time. Nothing was measured "
            "for this report."
        )
    methods = Counter(how for t in trials if (how := t.record.extrapolated))
    if methods:
        count = f"{methods.total()} of {counted(len(trials), 'trial')}"
        method = clean(methods.most_common(1)[0][0])
        yield f"Extrapolated, not measured whole ({count}): {method}."
    if changed := _drift(report.history):
        yield changed
    if learns and learns.verdict == LossVerdict.OUTSIDE:
        yield f"More tokens may not be worth it: {verdict_line(learns)}."
    if report.output is None:
        states = {True: "is still running", False: "was cut off before its end"}
        doubt = "is still running, or was cut off"
        state = doubt if report.is_running is None else states[report.is_running]
        yield f"The search {state}. The answer may change."


def sentences(report: Report) -> Iterator[str]:
    """Yield the findings as sentences, and those that only the page has."""
    outcome, study = report.outcome, report.study
    if report.chosen not in (None, report.plan.baseline):
        yield f"Chosen: {clean(describe(report.plan, report.chosen), MAX_SENTENCE)}."
    findings = [each for each in outcome.findings if each.code != "rehearsal"]
    findings = findings if study.trials else []
    title = None if outcome.find("fp8-may-diverge") else _answer(report)
    yield from map(_sentence, messages(each for each in findings if each != title))
    chosen = report.with_standing("chosen")
    if chosen is None:
        return
    if chosen.peak_gib:
        capacity = 0.0 if report.is_rehearsal else report.capacity_gib
        of = f" of {capacity:.1f}" if capacity else ""
        where = "of the process" if report.is_rehearsal else "allocated"
        yield f"Peak memory {gib(chosen.peak_gib)}{of} GiB {where}."
    known = outcome.learns or outcome.ending.unchecked or report.is_replay
    if not known and chosen.precision == "fp8":
        yield "Stability was not checked: no run compares FP8's losses with bf16's."
    start = study.about.get("start")
    if isinstance(start, dict) and start.get("study"):
        how = clean(str(start.get("said")))
        yield f"The search {how}. None of that study's trials is counted here."
    yield f"{counts(outcome)}. Intervals are 95 % and count the spread between runs."


def _sentence(line: str) -> str:
    """Return a line of the terminal as a sentence."""
    return f"{capital(clean(line, MAX_SENTENCE))}."
