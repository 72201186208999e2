"""The findings of a search: what its trials show, the doubts they leave, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fp8tune.job import Job
from fp8tune.search.answer.answer import (
    LARGER_BUDGET,
    Answer,
    Estimate,
    Finding,
    bad_data,
    changes,
    failure_code,
    is_untied,
)
from fp8tune.search.answer.choice import (
    PAIRS,
    Chosen,
    Fp8Pair,
    choose,
    left_open,
)
from fp8tune.search.budget import budget_for_longer_trial
from fp8tune.search.history import History
from fp8tune.search.knobs import expected_of_fp8
from fp8tune.search.losses import findings as losses
from fp8tune.search.objective import ENERGY, SPEED, count_without_value
from fp8tune.search.plan import Plan, rows_per_step, tokens_per_step
from fp8tune.search.statistics import SAME
from fp8tune.trials.record import REFUSED, Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import (
    Trial,
    count_retried_settings,
    last_process,
    retries_all,
)


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


def findings(
    case: Case, trials: Sequence[Trial], answering: Finding
) -> Iterator[Finding]:
    """Yield the findings, the most important first; one of them is ``answering``."""
    outcome = case.outcome
    if doubt := losses.warning(outcome.learns):
        yield Finding("fp8-may-diverge", {"text": doubt})
    chosen = outcome.chosen
    if outcome.rejected and chosen and case.space.value(chosen, "precision") != "fp8":
        yield Finding("fp8-rejected")
    doubts = list(_doubts(case))
    fp8 = list(_fp8(case, names_budget=not doubts))
    first = [each for each in fp8 if each.code in DOES_NOT_PAY]
    yield from first
    yield answering
    yield from doubts
    yield from _unproven(case)
    yield from _pairs_left_out(case)
    yield from _caveats(case, trials)
    yield from (each for each in fp8 if each not in first)
    yield from _otherwise(case)
    if outcome.record:
        yield from _of_record(outcome.record)


DOES_NOT_PAY = ("fp8-slower-than-bf16", "fp8-as-fast-as-bf16")
"""Findings that begin an answer: the FP8 that was asked for does not pay."""


PACE = ("learning_rate", "warmup_steps")
"""Fields of the job to look at first where the loss is lost."""


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


def _unproven(case: Case) -> Iterator[Finding]:
    """Yield the setting that leads, but may not be chosen before its losses are known.

    The search changed how FP8 works there.
    """
    every = case.history.choosing(proven_only=False)
    leads = choose(every).point
    if leads is None or leads == case.chosen.point or not every.is_unproven(leads):
        return
    gain = every.gap(leads, case.chosen.point or case.baseline)
    yield Finding(
        "unproven",
        {"setting": case.changes(leads), "gain": gain and Estimate(gain.value)},
    )


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


def answers(case: Case) -> Finding:
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
    if case.history.is_unproven(outcome.chosen):
        changed = case.changes(outcome.chosen) if outcome.chosen else {}
        yield Finding("losses-not-compared", {"setting": changed})
    elif within:
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
        if outliers:
            settings = [case.changes(one), case.changes(other)]
            facts = {"outliers": outliers, "pairs": every, "settings": settings}
            yield Finding("pairs-left-out", facts)


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
        at_once, rehearsal = case.history.most_at_once, case.history.is_rehearsal
        yield Finding("several-workers", {"trials": at_once, "rehearsal": rehearsal})


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


def config_findings(outcome: Answer, plan: Plan) -> Iterator[Finding]:
    """Yield findings that need the config, and the comparison of losses."""
    chosen, space = outcome.chosen, plan.space
    for knob, why in plan.kept.items():
        yield Finding("knob-kept", {"knob": knob, "why": why})
    if chosen is not None:
        same = space.value(chosen, "precision") == space.value(
            plan.baseline, "precision"
        )
        if same and outcome.baseline_outcome == "nan":
            yield Finding("may-end-in-nan")
        yield from _other_tokens(plan, space.values(chosen))
        yield from _samples(plan.config.job)
        yield from _kept_fp8(plan, chosen)
    yield from _learning(outcome, plan)


def _kept_fp8(plan: Plan, chosen: Point) -> Iterator[Finding]:
    """Yield what the estimate expects of the FP8 knobs that the search kept."""
    values = plan.space.values(chosen)
    expected = expected_of_fp8(plan.config, plan.offers, values)
    if expected:
        yield Finding("fp8-kept", {"expected": [each._asdict() for each in expected]})


def _other_tokens(plan: Plan, knobs: dict[str, Any]) -> Iterator[Finding]:
    """Yield that a setting changes the tokens of a step; the GPUs may be unknown."""
    for unit, of_step in (
        ("tokens", tokens_per_step),
        ("sequences per rank", rows_per_step),
    ):
        before, after = of_step(plan.config.job, {}), of_step(plan.config.job, knobs)
        if before and after:
            if before != after:
                facts = {"before": before, "after": after, "unit": unit}
                yield Finding("other-tokens-per-step", facts)
            return


def _samples(job: Job) -> Iterator[Finding]:
    """Yield how samples are counted where a batch may have fewer tokens."""
    if job.find("samples_may_be_shorter") and (tokens := job.find("seq_len")):
        facts = {"key": job.key("seq_len"), "tokens": tokens}
        yield Finding("samples-may-be-shorter", facts)


def _learning(outcome: Answer, plan: Plan) -> Iterator[Finding]:
    """Yield the comparison of losses in its own words."""
    for point, wrong in outcome.rejected.items():
        facts = {"setting": changes(plan.space, plan.baseline, point)}
        yield Finding("setting-rejected", {**facts, "text": losses.verdict_line(wrong)})
        lines = losses.warmup_lines(wrong)
        yield from (Finding("warmup", {"text": line}) for line in lines)
    if outcome.rejected and outcome.chosen is None:
        yield Finding("allow-precision")
    if outcome.learns:
        code = f"stability-{outcome.learns.verdict}"
        for line in losses.lines(outcome.learns):
            yield Finding(code, {"text": line})
    if is_untied(outcome, plan):
        yield Finding("fp8-unties-embeddings")
    if why := outcome.ending.unchecked:
        enough = {"budget_s": outcome.ending.budget_s}
        known = enough if outcome.ending.checking_s else {}
        begun = {"begun": True} if outcome.learns else {}
        yield Finding("stability-not-checked", {"why": why, **begun, **known})


def failures(outcome: Answer, plan: Plan, trials: Sequence[Trial]) -> Iterator[Finding]:
    """Yield how the trials failed, and what to do about it."""
    failed = [trial for trial in trials if not trial.record.ok]
    for how, count in Counter(map(failure_code, failed)).most_common():
        yield Finding("failed-trials", {"how": how, "count": count})
    if outcome.baseline_outcome == "nan":
        yield Finding("config-loses-its-loss", {"settings": _pace(plan)})
    process = last_process(trials)
    latest = [trial for trial in trials if trial.process == process]
    if not any(True for _ in plan.space.points(plan.baseline)):
        yield Finding("frozen-knobs-not-recorded", {"text": "; ".join(plan.notes)})
    elif all(trial.is_of_budget for trial in latest):
        yield Finding("no-trial-ended", _more_time(plan, latest))
    elif any(trial.record.outcome == "oom" for trial in failed):
        yield Finding("try-less-memory", {"options": _smaller(plan)})
    if count := count_without_value(
        outcome.objective, (trial.record for trial in trials)
    ):
        yield Finding("watts-unknown", {"count": count})


def _pace(plan: Plan) -> dict[str, Any]:
    """Return the config's learning rate and warmup by their keys."""
    job, trainer = plan.config.job, plan.config.trainer
    pace = {trainer.key_of(role): job.find(role) for role in PACE}
    return {key: v for key, v in pace.items() if key and v is not None}


def _more_time(plan: Plan, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the time in which no trial ended, and a budget that gives one more [s]."""
    history = History(plan.space, plan.baseline, trials)
    return {
        "within_s": max(t.budget_s if t.cut_off else t.record.cost_s for t in trials),
        "budget_s": budget_for_longer_trial(history, plan.baseline),
        "rehearsal": history.is_rehearsal,
    }


def _smaller(plan: Plan) -> list[str]:
    """Return memory-saving options that the config does not use yet."""
    job = plan.config.job
    options = {
        "smaller-micro-batch": job["micro_batch"] > 1,
        "full-checkpointing": job["ac"] != "full",
        "more-gpus": True,
    }
    return [name for name, known in options.items() if known]


def machine_findings(trials: Sequence[Trial], *, on_cpu: bool) -> Iterator[Finding]:
    """Yield what to do if the machine may have caused all failures."""
    if all(trial.record.error == REFUSED for trial in trials):
        return
    if retries_all(trials, last_process(trials) + 1):
        if all(trial.record.never_began for trial in trials):
            yield Finding("run-doctor", {"on_cpu": on_cpu})
        yield Finding("repair-and-retry")


def failed_before(
    trials: Sequence[Trial], process: int, outcome: Answer
) -> Iterator[Finding]:
    """Yield how many settings this process does not retry because they failed."""
    count = count_retried_settings(trials, process)
    if count and all(trial.process < process for trial in trials):
        yield Finding("failed-before", {"count": count, **settling_budget(outcome)})
