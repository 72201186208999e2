"""A study as its report shows it: the answer that its search stored, and its trials.

Nothing is decided here. What the study holds is read into named fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fp8tune.search.answer.answer import Estimate, Setting, setting_from
from fp8tune.search.answer.stored import stored_answer
from fp8tune.search.answer.wording import FAILURES, capital, change, counts, gib
from fp8tune.search.labels import describe, setting_label
from fp8tune.search.objective import UNITS, show_value
from fp8tune.search.plan import Plan
from fp8tune.search.prior import card_gib
from fp8tune.search.saved_study import SavedStudy
from fp8tune.search.storage import BadStudy, is_searched
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, timed
from fp8tune.words import clean, counted

ROLE_NAMES = {
    "chosen": "chosen",
    "baseline": "your config",
    "bf16-baseline": "bf16 baseline",
    "runner-up": "runner-up",
}
MAX_SENTENCE = 1000
"""Longest sentence [characters]."""


class Losses(NamedTuple):
    """The comparison of losses: its setting, result, and the warmup of its runs."""

    point: Point
    verdict: str
    evidence: str
    warmup_steps: int


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """A study and its answer.

    ``findings`` are codes and sentences, ``answered_by`` is the code of the one that
    answers the search, ``commands`` are what to type next.
    ``speed_changed`` is the lowest and highest ratio of confirmed speed to search
    speed. ``is_running`` says whether the search is running now; ``None`` if the file
    system has no locks. ``interrupted``: the same command continues.
    """

    study: SavedStudy
    chosen: Point | None
    objective: str
    settings: Sequence[Setting]
    findings: Sequence[tuple[str, str]]
    answered_by: str
    losses: Losses | None
    not_compared: bool
    speed_changed: tuple[float, float] | None
    counts: str
    seconds: float
    commands: Sequence[str]
    interrupted: bool
    is_running: bool | None

    @property
    def plan(self) -> Plan:
        """The plan of the search."""
        return self.study.plan

    @property
    def unit(self) -> str:
        """The unit of the objective."""
        return UNITS[self.objective]

    @property
    def output(self) -> str | None:
        """The tuned config, ``""`` if none was written, ``None`` before the end."""
        return self.study.about.output

    @property
    def is_rehearsal(self) -> bool:
        """Whether the trials ran on a CPU."""
        on_cpu = any(trial.record.rehearsal for trial in self.study.trials)
        return on_cpu or self.study.about.device == "cpu"

    @property
    def capacity_gib(self) -> float:
        """The memory of the GPU [GiB], 0 if unknown."""
        measured = (trial.record.capacity_gib for trial in self.study.trials)
        return max(measured, default=0.0) or card_gib(self.plan.config.job)

    @property
    def with_roles(self) -> list[Setting]:
        """The settings that have a role in the answer, in the order of the roles."""
        settings = [setting for setting in self.settings if setting.roles]
        return sorted(settings, key=lambda s: [*ROLE_NAMES].index(s.roles[0]))

    def setting(self, point: Point | None) -> Setting | None:
        """Return a setting if it was tried."""
        return next((s for s in self.settings if s.point == point), None)

    def trials_of(self, point: Point) -> list[Trial]:
        """Return the timed trials of a setting, as they were recorded."""
        at = self.plan.space.point
        return [t for t in timed(self.study.trials) if at(t.record.knobs) == point]

    def label(self, setting: Setting) -> str:
        """Return a setting by all its knobs."""
        return setting_label(self.plan.space.knobs, setting.point)

    def short_label(self, setting: Setting) -> str:
        """Return a setting by the knobs in which the tried ones differ."""
        return setting_label(self.plan.space.knobs, setting.point, self._varied)

    @cached_property
    def _varied(self) -> set[str] | None:
        knobs = enumerate(self.plan.space.knobs)
        return {
            knob.key
            for place, knob in knobs
            if knob.role != "precision"
            and len({setting.point[place] for setting in self.settings}) > 1
        } or None

    def precision(self, setting: Setting) -> str:
        """Return the precision of a setting, ``""`` if it is no knob."""
        return str(self.plan.space.value(setting.point, "precision") or "")

    def figure(self, setting: Setting) -> str:
        """Return the objective of a setting with its interval, and if it is scaled."""
        scaled = ", scaled down" * setting.is_scaled
        return f"{interval(setting.value, self.objective)}{scaled}"


def read_report(study: SavedStudy) -> StudyReport:
    """Return what the report of a study shows; raises ``BadStudy``."""
    ended = study.about.output is not None
    running = study.has_workers or (not ended and is_searched(study.folder))
    answer = stored_answer(study)
    try:
        return _report(study, answer, is_running=running)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise BadStudy(f"{study.folder}: no answer of this version ({wrong})") from None


def _report(
    study: SavedStudy, answer: Mapping[str, Any], *, is_running: bool | None
) -> StudyReport:
    space, knobs, seconds = study.plan.space, answer["knobs"], float(answer["seconds"])
    changed = answer["speed_changed"]
    return StudyReport(
        study=study,
        chosen=None if knobs is None else space.point(knobs),
        objective=str(answer["objective"]),
        settings=[setting_from(each, space) for each in answer["tried"]],
        findings=[(str(f["code"]), str(f["message"])) for f in answer["findings"]],
        answered_by=str(answer.get("answered_by")),
        losses=_losses(answer["stability"], space),
        not_compared=answer["stability"] is None,
        speed_changed=(float(changed[0]), float(changed[1])) if changed else None,
        counts=counts(int(answer["trials"]), int(answer["oom_trials"]), seconds),
        seconds=seconds,
        commands=list(map(str, answer["next"])),
        interrupted=answer["interrupted"] is True,
        is_running=is_running,
    )


def _losses(stability: Mapping[str, Any] | None, space: Space) -> Losses | None:
    if stability is None or "knobs" not in stability:
        return None
    return Losses(
        space.point(stability["knobs"]),
        str(stability["verdict"]),
        str(stability["evidence"]),
        int(stability["compared_warmup_steps"]),
    )


def role_names(setting: Setting) -> str:
    """Return the roles of a setting in words, or ``""``."""
    return " = ".join(ROLE_NAMES[name] for name in setting.roles)


def key_value(setting: Setting) -> float:
    """Return the objective of a setting as a number to sort by, 0 if it has none."""
    return setting.value.value if setting.value else 0.0


def why_not(setting: Setting) -> str:
    """Return why a setting that ran may not be chosen, else ``""``."""
    if setting.memory_shortage or not setting.failed_later:
        return setting.memory_shortage or "FP8 diverges" * setting.diverges
    return f"failed in another run: {FAILURES[setting.failed_later]}"


def ratio(gain: Estimate | None) -> str:
    """Return how a setting compares with another one: the change, or a dash."""
    if gain is None:
        return "-"
    return "inconclusive" if gain.low is None else change(gain)


def vs_chosen(setting: Setting) -> str:
    """Return how a setting compares with the chosen one, by pairs of runs."""
    return ratio(setting.vs_chosen if setting.pairs else None)


def interval(measured: Estimate | None, objective: str) -> str:
    """Return a value with its 95 % interval if it has one: ``150 (149 to 151)``."""
    if measured is None:
        return "not measured"
    value, low, high = (end and show_value(end, objective) for end in measured)
    return f"{value} ({low} to {high})" if low and high else str(value)


def headline(report: StudyReport) -> str:
    """Return the answer in one line: the first finding that is not a warning."""
    if not report.study.trials:
        return "No trial has ended yet"
    if _may_diverge(report):
        return "Inconclusive: FP8 may diverge"
    yet = " yet" * (report.output is None and report.chosen is None)
    return f"{capital(clean(_answer(report)[1], MAX_SENTENCE))}{yet}"


def _may_diverge(report: StudyReport) -> bool:
    return any(code == "fp8-may-diverge" for code, _ in report.findings)


def _answer(report: StudyReport) -> tuple[str, str]:
    """Return the finding that answers the search, whatever FP8 gains."""
    answers = (each for each in report.findings if each[0] == report.answered_by)
    return next(answers, report.findings[0])


def warnings(report: StudyReport) -> Iterator[str]:
    """Yield what a reader must know before trusting the answer."""
    losses, trials = report.losses, report.study.trials
    if report.is_rehearsal:
        yield (
            "A rehearsal on a CPU. The trials are real training, but they do not show "
            "how fast a GPU is, nor whether FP8 pays."
        )
    if report.study.about.is_replay:
        yield (
            "A replay of recorded trials under simulated time. Nothing was measured "
            "for this report."
        )
    methods = Counter(how for t in trials if (how := t.record.extrapolated))
    if methods:
        count = f"{methods.total()} of {counted(len(trials), 'trial')}"
        method = clean(methods.most_common(1)[0][0])
        yield f"Extrapolated, not measured whole ({count}): {method}."
    if report.speed_changed:
        least, most = (f"{100 * end:.0f}" for end in report.speed_changed)
        ends = least if least == most else f"{least} to {most}"
        yield (
            "The machine's speed changed during the search: settings that were "
            f"repeated ran at {ends} % of their first speed. Compare only trials of "
            "the confirmation."
        )
    if losses and losses.verdict == "outside":
        yield f"More tokens may not be worth it: {losses.evidence}."
    if report.output is None:
        states = {True: "is still running", False: "was cut off before its end"}
        doubt = "is still running, or was cut off"
        state = doubt if report.is_running is None else states[report.is_running]
        yield f"The search {state}. The answer may change."


def sentences(report: StudyReport) -> Iterator[str]:
    """Yield the findings as sentences, and those that only the page has."""
    study, chosen = report.study, report.setting(report.chosen)
    if chosen and "baseline" not in chosen.roles:
        yield f"Chosen: {clean(describe(report.plan, chosen.point), MAX_SENTENCE)}."
    title = None if _may_diverge(report) else _answer(report)
    for finding in report.findings if study.trials else ():
        if finding != title and finding[0] != "rehearsal":
            yield f"{capital(clean(finding[1], MAX_SENTENCE))}."
    if chosen is None:
        return
    if chosen.peak_gib:
        capacity = 0.0 if report.is_rehearsal else report.capacity_gib
        of = f" of {capacity:.1f}" if capacity else ""
        where = "of the process" if report.is_rehearsal else "allocated"
        yield f"Peak memory {gib(chosen.peak_gib)}{of} GiB {where}."
    is_fp8 = report.precision(chosen) == "fp8"
    if report.not_compared and not report.study.about.is_replay and is_fp8:
        yield "Stability was not checked: no run compares FP8's losses with bf16's."
    yield f"{report.counts}. Intervals are 95 % and count the spread between runs."
