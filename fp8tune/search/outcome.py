"""The outcome of a search: the chosen setting, the verdict, and findings with codes.

Everything is decided here; ``wording`` has the sentences.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fp8tune.search.budget import budget_for_longer_trial
from fp8tune.search.choice import (
    PAIRS,
    Chosen,
    Fp8Comparison,
    Fp8Pair,
    choose,
    compare_fp8,
    is_enough,
    left_open,
)
from fp8tune.search.history import History
from fp8tune.search.objective import ENERGY, SPEED, count_without_value
from fp8tune.search.plan import Plan, rows_per_step, tokens_per_step, warmup_key
from fp8tune.search.stability import findings as losses
from fp8tune.search.stability.findings import Stability
from fp8tune.search.statistics import SAME, Speed, shown, verdict
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial, last_process, retries_all

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


class SearchOutcome(NamedTuple):
    """The outcome of a search.

    ``chosen`` is ``None`` if no setting that may be chosen ran. ``record`` is from its
    last trial; ``numbers`` are the trials that give its value. ``pairs`` counts the
    pairs of interleaved runs that compare it with the baseline. Of the settings that
    may be chosen, ``tried`` had a trial and ``untried`` had none. ``memory_shortage``
    says why settings leave too little memory, ``broken`` how settings failed that had
    run before. ``stability`` compares the losses of FP8 and bf16, by setting.
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


def decide(
    history: History,
    seconds: float,
    objective: str = SPEED,
    ending: Ending | None = None,
) -> SearchOutcome:
    """Decide the outcome of a search that took ``seconds``, from its trials."""
    wanted, trials, baseline = history.by(objective), history.trials, history.baseline
    chosen = choose(wanted)
    allowed = set(history.space.points(baseline))
    tried = wanted.settings.keys()
    outcome = SearchOutcome(
        chosen=chosen.point,
        verdict=chosen.verdict,
        objective=objective,
        speed=_measured(history, chosen.point),
        energy=_measured(history.by(ENERGY), chosen.point),
        runner_up=chosen.runner_up,
        runner_up_gain=gain_of(wanted, chosen.runner_up, chosen.point),
        record=history.last(chosen.point),
        numbers=wanted.numbers(chosen.point, baseline),
        pairs=len(wanted.pairs(chosen.point, baseline)),
        tried=len(allowed & tried),
        untried=len(allowed - tried),
        trials=len(trials),
        oom_trials=sum(trial.record.outcome == "oom" for trial in trials),
        seconds=seconds,
        baseline_outcome=history.runs(baseline).failed_always,
        memory_shortage={
            point: why
            for point, own in history.settings.items()
            if (why := own.memory_shortage)
        },
        broken={
            point: why
            for point, own in history.settings.items()
            if (why := own.failed_later)
        },
        stability=history.stability,
        ending=ending or Ending(),
    )
    case = _Case(wanted, chosen, outcome)
    return outcome._replace(findings=tuple(_findings(case, trials)))


def with_config(
    outcome: SearchOutcome, plan: Plan, trials: Sequence[Trial]
) -> SearchOutcome:
    """Add the findings that need the config itself, and why no trial succeeded."""
    more = [*_config_findings(outcome, plan)]
    if outcome.chosen is None and trials and not outcome.rejected:
        more += _failures(outcome, plan, trials)
    return outcome._replace(findings=(*outcome.findings, *more))


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


def _estimate(value: Speed | None, runs: int) -> Estimate | None:
    """Return a value, with its interval if there are enough runs for one."""
    if value is None or not is_enough(value, runs):
        return value and Estimate(value.value)
    return Estimate(*value)


def gain_of(
    history: History, one: Point | None, other: Point | None
) -> Estimate | None:
    """Return how much faster one setting is than another, with the interval to show."""
    found = history.gap(one, other)
    return found and _estimate(shown(found), len(history.pairs(one, other)))


def _measured(history: History, chosen: Point | None) -> Measured:
    baseline = history.baseline
    mine, theirs = history.speeds(chosen, baseline)
    pairs = len(history.pairs(chosen, baseline))
    rehearsal = history.is_rehearsal
    fp8 = Fp8Comparison() if rehearsal else compare_fp8(history, chosen)
    fp8_pairs = len(history.pairs(*(fp8.pair or (None, None))))
    return Measured(
        _estimate(mine, pairs or _count(history, chosen)),
        _estimate(theirs, pairs or _count(history, baseline)),
        gain_of(history, chosen, baseline),
        _estimate(fp8.bf16, fp8_pairs),
        fp8.gain and _estimate(fp8.gain, fp8_pairs),
        _fp8_verdict(fp8.gain, fp8_pairs, history.noise.same),
        fp8_pairs,
        fp8.pair,
    )


def _count(history: History, point: Point | None) -> int:
    return sum(trial.record.ok for trial in history.runs(point).telling)


def _fp8_verdict(gain: Speed | None, pairs: int, same: float) -> str:
    if gain is None or not is_enough(gain, pairs):
        return "inconclusive"
    likely = verdict(gain, same)
    return "inconclusive" if likely == "same" and gain.half > 2 * same else likely


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


class _Case(NamedTuple):
    """The data that findings are decided from; the history is in the objective."""

    history: History
    chosen: Chosen
    outcome: SearchOutcome

    @property
    def baseline(self) -> Point:
        return self.history.baseline

    @property
    def space(self) -> Space:
        return self.history.space

    @property
    def keeps_baseline(self) -> bool:
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
        return changes(self.space, self.baseline, point)


def _findings(case: _Case, trials: Sequence[Trial]) -> Iterator[Finding]:
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


def _fp8(case: _Case, *, names_budget: bool) -> Iterator[Finding]:
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


def _place(case: _Case, pair: Fp8Pair) -> str:
    """Return whether a comparison was made at the chosen setting or at the baseline."""
    chosen = case.chosen.point
    own = chosen and case.space.with_precision(chosen, "fp8")
    return "chosen" if own in (None, pair.fp8) else "baseline"


def settling_budget(outcome: SearchOutcome) -> dict[str, Any]:
    """Return what would find more: the same command, or a budget and its spent part."""
    step, seconds = outcome.ending.next_step, outcome.ending.budget_s
    if step == LARGER_BUDGET and seconds:
        return {"budget_s": seconds, "spent_s": outcome.seconds}
    return {"next_step": step} if step else {}


def _verdict(case: _Case) -> Finding:
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


def _nothing_chosen(outcome: SearchOutcome) -> str:
    if outcome.rejected:
        return "fp8-diverges-everywhere"
    if outcome.memory_shortage or "oom" in outcome.broken.values():
        return "no-setting-leaves-memory"
    return "no-setting-ran-each-time" if outcome.broken else "no-trial-succeeded"


def _doubts(case: _Case) -> Iterator[Finding]:
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


def _pairs_left_out(case: _Case) -> Iterator[Finding]:
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


def _caveats(case: _Case, trials: Sequence[Trial]) -> Iterator[Finding]:
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


def _runner_up(case: _Case, point: Point) -> dict[str, Any]:
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


def _without_memory(case: _Case) -> list[dict[str, Any]]:
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


def _otherwise(case: _Case) -> Iterator[Finding]:
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


def _config_findings(outcome: SearchOutcome, plan: Plan) -> Iterator[Finding]:
    """Yield findings that need the config, and the comparison of losses."""
    chosen, space = outcome.chosen, plan.space
    if chosen is not None:
        same = space.value(chosen, "precision") == space.value(
            plan.baseline, "precision"
        )
        if same and outcome.baseline_outcome == "nan":
            yield Finding("may-end-in-nan")
        yield from _other_tokens(plan, space.values(chosen))
    yield from _learning(outcome, plan)


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


def _learning(outcome: SearchOutcome, plan: Plan) -> Iterator[Finding]:
    """Yield the comparison of losses in its own words."""
    key = warmup_key(plan.config.trainer)
    for point, wrong in outcome.rejected.items():
        facts = {"setting": changes(plan.space, plan.baseline, point)}
        yield Finding("setting-rejected", {**facts, "text": losses.verdict_line(wrong)})
        lines = losses.warmup_lines(wrong, key)
        yield from (Finding("warmup", {"text": line}) for line in lines)
    if outcome.rejected and outcome.chosen is None:
        yield Finding("allow-precision")
    if outcome.learns:
        code = f"stability-{outcome.learns.verdict}"
        for line in losses.lines(outcome.learns, key):
            yield Finding(code, {"text": line})
    if is_untied(outcome, plan):
        yield Finding("fp8-unties-embeddings")
    if why := outcome.ending.unchecked:
        enough = {"budget_s": outcome.ending.budget_s}
        known = enough if outcome.ending.checking_s else {}
        begun = {"begun": True} if outcome.learns else {}
        yield Finding("stability-not-checked", {"why": why, **begun, **known})


def is_untied(outcome: SearchOutcome, plan: Plan) -> bool:
    """Return whether FP8 and bf16 were compared as different models."""
    knob = plan.space.knob("precision")
    if knob is None or not (outcome.learns or outcome.rejected):
        return False
    job = plan.config.job.with_values({knob.key: "fp8"})
    return bool(job.find("tied_embeddings")) and job.find("params.tied") is False


def _failures(
    outcome: SearchOutcome, plan: Plan, trials: Sequence[Trial]
) -> Iterator[Finding]:
    """Yield how the trials failed, and what to do about it."""
    failed = [trial for trial in trials if not trial.record.ok]
    for how, count in Counter(map(failure_code, failed)).most_common():
        yield Finding("failed-trials", {"how": how, "count": count})
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
    if retries_all(trials, last_process(trials) + 1):
        if all(trial.record.never_began for trial in trials):
            yield Finding("run-doctor", {"on_cpu": on_cpu})
        yield Finding("repair-and-retry")
