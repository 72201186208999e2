"""The findings of a search: what its trials show, and which doubts they leave."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fp8tune.search.answer.answer import (
    LARGER_BUDGET,
    Answer,
    Finding,
    bad_data,
    changes,
)
from fp8tune.search.answer.choice import (
    PAIRS,
    Chosen,
    Fp8Pair,
    left_open,
)
from fp8tune.search.history import History
from fp8tune.search.losses import findings as losses
from fp8tune.search.objective import ENERGY, SPEED
from fp8tune.search.statistics import SAME
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial


class Case(NamedTuple):
    """The data that findings are decided from; the history is in the objective."""

    history: History
    chosen: Chosen
    outcome: Answer

    @property
    def baseline(self) -> Point:
        """The setting of the config as it is."""
        return self.history.baseline

    @property
    def space(self) -> Space:
        """The settings that may be tried."""
        return self.history.space

    @property
    def keeps_baseline(self) -> bool:
        """Whether the chosen setting is the config's own."""
        return self.chosen.point == self.baseline

    @property
    def others(self) -> list[Point]:
        """The other settings that ran and whose knobs the search may choose."""
        return [
            point
            for point, own in self.history.settings.items()
            if point != self.baseline
            and self.space.allows(point, self.baseline)
            and own.ran
        ]

    @property
    def compared_with(self) -> Point | None:
        """The setting that the chosen one is compared with."""
        return self.outcome.runner_up if self.keeps_baseline else self.baseline

    @property
    def lacks_bf16(self) -> bool:
        """Whether a setting is chosen and its bf16 version could run, but did not."""
        point, history = self.chosen.point, self.history
        bf16 = point and history.space.in_bf16(point)
        return bool(bf16) and not history.is_rehearsal

    def changes(self, point: Point) -> dict[str, Any]:
        """Return the knobs in which a setting differs from the baseline."""
        return changes(self.space, self.baseline, point)


def findings(case: Case, trials: Sequence[Trial]) -> Iterator[Finding]:
    """Yield the findings, the most important first."""
    outcome = case.outcome
    if doubt := losses.warning(outcome.learns):
        yield Finding("fp8-may-diverge", {"text": doubt})
    if outcome.rejected and outcome.chosen is not None:
        yield Finding("fp8-rejected")
    doubts = list(_doubts(case))
    fp8 = list(_fp8(case, names_budget=not doubts))
    first = [each for each in fp8 if each.code in DOES_NOT_PAY]
    yield from first
    yield _verdict(case)
    yield from doubts
    yield from _pairs_left_out(case)
    yield from _caveats(case, trials)
    yield from (each for each in fp8 if each not in first)
    yield from _otherwise(case)
    if outcome.record:
        yield from _of_record(outcome.record)


DOES_NOT_PAY = ("fp8-slower-than-bf16", "fp8-as-fast-as-bf16")
"""Findings that begin an answer: the FP8 that was asked for does not pay."""


def _fp8(case: Case, *, names_budget: bool) -> Iterator[Finding]:
    """Yield how FP8 compares with bf16, in the objective and in tokens/s.

    ``names_budget``: no other finding says which budget would settle more.
    """
    outcome = case.outcome
    objectives = [(outcome.measured, outcome.objective)]
    if outcome.objective != SPEED:
        objectives.append((outcome.speed, SPEED))
    for measured, objective in objectives:
        bf16 = measured.bf16_baseline
        facts: dict[str, Any] = {"bf16_baseline": bf16, "objective": objective}
        if measured.pair is None:
            if measured.bf16_baseline:
                yield Finding("fp8-not-compared", facts)
            elif objective == outcome.objective and case.lacks_bf16:
                more = settling_budget(outcome) if names_budget else {}
                yield Finding("bf16-not-measured", more)
            continue
        code = {"same": "fp8-as-fast-as-bf16", "inconclusive": "fp8-inconclusive"}.get(
            measured.fp8_verdict, f"fp8-{measured.fp8_verdict}-than-bf16"
        )
        facts |= {
            "gain": measured.fp8_gain,
            "pairs": measured.fp8_pairs,
            "fp8": case.changes(measured.pair.fp8),
            "bf16": case.changes(measured.pair.bf16),
            "bf16_differs": _other_knobs(case.space, measured.pair),
            "at": _place(case, measured.pair),
        }
        if code == "fp8-inconclusive" and names_budget:
            facts |= settling_budget(outcome)
        yield Finding(code, facts)


def _other_knobs(space: Space, pair: Fp8Pair) -> dict[str, Any]:
    """Return the knobs beyond precision in which the bf16 setting differs."""
    return changes(space, space.in_bf16(pair.fp8) or pair.fp8, pair.bf16)


def _place(case: Case, pair: Fp8Pair) -> str:
    """Return whether a comparison was made at the chosen setting or at the baseline."""
    chosen = case.chosen.point
    own = chosen and case.space.with_precision(chosen, "fp8")
    return "chosen" if own in (None, pair.fp8) else "baseline"


def settling_budget(outcome: Answer) -> dict[str, Any]:
    """Return what would find more: the same command, or a budget and its spent part."""
    step, seconds = outcome.ending.next_step, outcome.ending.budget_s
    if step == LARGER_BUDGET and seconds:
        return {"budget_s": seconds, "spent_s": outcome.seconds}
    return {"next_step": step} if step else {}


def _verdict(case: Case) -> Finding:
    """Return the finding that answers the search."""
    outcome, measured = case.outcome, case.outcome.measured
    base: dict[str, Any] = {"chosen": measured.chosen, "objective": outcome.objective}
    if outcome.record and outcome.record.extrapolated:
        base["extrapolation_error"] = outcome.record.extrapolation_error
    if outcome.chosen is None:
        return Finding(_nothing_chosen(outcome))
    if not case.keeps_baseline and measured.gain and measured.baseline:
        compared = {"baseline": measured.baseline, "gain": measured.gain}
        return Finding(outcome.verdict, {**base, **compared, "pairs": outcome.pairs})
    if not case.keeps_baseline and outcome.baseline_outcome:
        return Finding("baseline-failed", {**base, "outcome": outcome.baseline_outcome})
    if not case.keeps_baseline:
        return Finding("baseline-not-measured", base)
    settings = {"tried": outcome.tried, "settings": outcome.tried + outcome.untried}
    if not outcome.is_conclusive:
        return Finding(
            "baseline-kept", {**base, **settings, "others": len(case.others)}
        )
    if outcome.runner_up is None:
        return Finding("no-other-setting-ran", {**base, **settings})
    behind = case.history.gap(outcome.runner_up, case.baseline)
    within = behind.high - 1 if behind else 0.0
    same = case.history.noise.same
    return Finding(
        "baseline-best",
        {**base, **settings} | ({"within": within} if within > same else {}),
    )


def _nothing_chosen(outcome: Answer) -> str:
    if outcome.rejected:
        return "fp8-diverges-everywhere"
    if outcome.memory_shortage or "oom" in outcome.broken.values():
        return "no-setting-leaves-memory"
    return "no-setting-ran-each-time" if outcome.broken else "no-trial-succeeded"


def _doubts(case: Case) -> Iterator[Finding]:
    """Yield why the verdict is inconclusive, and what would settle it."""
    outcome = case.outcome
    if outcome.chosen is None or outcome.is_conclusive:
        return
    other = case.compared_with
    gain = case.history.gap(outcome.chosen, other)
    pairs = len(case.history.pairs(outcome.chosen, other))
    within = left_open(case.history, outcome.chosen, other)
    doubtful = outcome.learns is not None and outcome.learns.may_diverge
    if within:
        yield Finding("communication-decides", {"within": within})
    elif not case.chosen.searched_all and (gain is None or case.keeps_baseline):
        step = outcome.ending.next_step
        code = "untested-settings" if step else "untested-memory"
        yield Finding(code, {"untested": outcome.untried, **settling_budget(outcome)})
    elif gain and not doubtful:
        code = "more-pairs-needed" if pairs else "not-confirmed"
        code = "one-pair-only" if 0 < pairs < PAIRS else code
        facts = {"pairs": pairs, "needed": PAIRS, **settling_budget(outcome)}
        yield Finding(code, facts)


def _pairs_left_out(case: Case) -> Iterator[Finding]:
    """Yield how many pairs of runs do not count for the verdict and for FP8 vs bf16."""
    compared = case.outcome.chosen, case.compared_with
    for one, other in dict.fromkeys((compared, case.outcome.measured.pair or compared)):
        if one is None or other is None or one == other:
            continue
        every = len(case.history.every_pair(one, other))
        outliers = every - len(case.history.pairs(one, other))
        earlier = case.history.earlier_pairs(one, other)
        across = case.history.pairs_across_workers(one, other)
        if outliers or earlier or across:
            settings = [case.changes(one), case.changes(other)]
            facts = {"outliers": outliers, "pairs": every, "earlier": earlier}
            facts["across_workers"] = across
            yield Finding("pairs-left-out", {**facts, "settings": settings})


def _caveats(case: Case, trials: Sequence[Trial]) -> Iterator[Finding]:
    """Yield caveats: what is wrong with the baseline, and what else users must know."""
    outcome, baseline = case.outcome, case.baseline
    if wrong := bad_data(trials):
        yield Finding("wrong-data", {"why": wrong})
    same = case.history.noise.same
    if outcome.verdict == "same" and same > SAME:
        yield Finding("coarse-on-cpu", {"within": same})
    if why := outcome.memory_shortage.get(baseline):
        yield Finding("memory-shortage", {"why": why})
    if how := outcome.broken.get(baseline):
        yield Finding("baseline-unreliable", {"outcome": how})
    if outcome.runner_up and outcome.runner_up != baseline:
        yield Finding("runner-up", _runner_up(case, outcome.runner_up))
    if short := _without_memory(case):
        yield Finding("too-little-memory", {"settings": short})
    if case.history.most_at_once > 1:
        yield Finding("several-workers", _beside(case.history))


def _beside(history: History) -> dict[str, Any]:
    """Return how many workers there were, and what they cost each other."""
    shares = history.shares_beside_others
    return {
        "trials": history.most_at_once,
        "settings": len(shares),
        "share": statistics.median(shares) if shares else None,
        "least": min(shares, default=None),
        "most": max(shares, default=None),
        "rehearsal": history.is_rehearsal,
    }


def _runner_up(case: Case, point: Point) -> dict[str, Any]:
    """Return how the runner-up differs from the chosen setting, and how much slower."""
    chosen = case.chosen.point or case.baseline
    return {
        "objective": case.outcome.objective,
        "gain": case.outcome.runner_up_gain,
        "pairs": len(case.history.pairs(point, chosen)),
        "setting": case.changes(point),
        "differs": changes(case.space, chosen, point),
        "chosen_is_baseline": case.keeps_baseline,
    }


def _without_memory(case: Case) -> list[dict[str, Any]]:
    """Return the settings, except the baseline, that have too little memory.

    The baseline has findings of its own.
    """
    short = dict(case.outcome.memory_shortage)
    for point, own in case.history.settings.items():
        if any(trial.record.outcome == "oom" for trial in own):
            short[point] = "out of memory"
    return [
        {"setting": case.changes(point), "why": why}
        for point, why in short.items()
        if point != case.baseline
    ]


def _otherwise(case: Case) -> Iterator[Finding]:
    """Yield the result in the other objective, if it was measured."""
    outcome = case.outcome
    measured = outcome.measured_otherwise
    if measured.chosen:
        name = SPEED if outcome.objective == ENERGY else ENERGY
        facts: dict[str, Any] = {"objective": name, "chosen": measured.chosen}
        if not case.keeps_baseline and measured.baseline and measured.gain:
            facts |= {"baseline": measured.baseline, "gain": measured.gain}
        yield Finding("other-objective", facts)


def _of_record(record: Record) -> Iterator[Finding]:
    """Yield how the chosen setting was measured."""
    if record.rehearsal:
        yield Finding("rehearsal")
    if found := record.extrapolation:
        yield Finding("extrapolated", found)
    if record.synthetic_data:
        yield Finding("synthetic-data")
    allocator = record.versions.get("allocator", "default")
    if allocator not in ("", "default"):
        yield Finding("allocator", {"setting": allocator[:200]})
