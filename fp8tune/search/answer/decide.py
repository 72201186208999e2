"""Decide the outcome of a search from its trials."""

from __future__ import annotations

from collections.abc import Sequence

from fp8tune.search.answer.answer import (
    Answer,
    Ending,
    Estimate,
    Measured,
)
from fp8tune.search.answer.choice import (
    Fp8Comparison,
    choose,
    compare_fp8,
    is_enough,
)
from fp8tune.search.answer.config_findings import (
    config_findings,
    failures,
    machine_findings,
)
from fp8tune.search.answer.findings import Case, findings
from fp8tune.search.history import History, Runs
from fp8tune.search.objective import ENERGY, SPEED
from fp8tune.search.plan import Plan
from fp8tune.search.statistics import Speed, shown, verdict
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point
from fp8tune.trials.trial import Trial


def decide(
    history: History,
    seconds: float,
    objective: str = SPEED,
    ending: Ending | None = None,
) -> Answer:
    """Decide the outcome of a search that took ``seconds``, from its trials."""
    wanted, trials, baseline = history.by(objective), history.trials, history.baseline
    chosen = choose(wanted)
    allowed = set(history.space.points(baseline))
    tried = wanted.settings.keys()
    outcome = Answer(
        chosen=chosen.point,
        verdict=chosen.verdict,
        objective=objective,
        speed=_measured(history, chosen.point),
        energy=_measured(history.by(ENERGY), chosen.point),
        runner_up=chosen.runner_up,
        runner_up_gain=gain_of(wanted, chosen.runner_up, chosen.point),
        record=_record(history.runs(chosen.point)),
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
    case = Case(wanted, chosen, outcome)
    return outcome._replace(findings=tuple(findings(case, trials)))


def with_config(
    outcome: Answer, plan: Plan, trials: Sequence[Trial], device: str = ""
) -> Answer:
    """Add the findings that need the config itself, and why no trial succeeded.

    ``device`` is where trials ran, ``""`` in a replay.
    """
    more = [*config_findings(outcome, plan)]
    if outcome.chosen is None and trials and not outcome.rejected:
        more += failures(outcome, plan, trials)
    if outcome.chosen is None and device:
        more += machine_findings(trials, on_cpu=device == "cpu")
    return outcome._replace(findings=(*outcome.findings, *more))


def estimate(value: Speed | None, runs: int) -> Estimate | None:
    """Return a value, with its interval if there are enough runs for one."""
    if value is None or not is_enough(value, runs):
        return value and Estimate(value.value)
    return Estimate(*value)


def gain_of(
    history: History, one: Point | None, other: Point | None
) -> Estimate | None:
    """Return how much faster one setting is than another, with the interval to show."""
    found = history.gap(one, other)
    return found and estimate(shown(found), len(history.pairs(one, other)))


def _measured(history: History, chosen: Point | None) -> Measured:
    baseline = history.baseline
    mine, theirs = history.speeds(chosen, baseline)
    runs = history.counted_runs(baseline, chosen)
    theirs = _beside(mine, theirs, history.gap(chosen, baseline), runs)
    pairs = len(history.pairs(chosen, baseline))
    rehearsal = history.is_rehearsal
    fp8 = Fp8Comparison() if rehearsal else compare_fp8(history, chosen)
    bf16, shown_speeds = fp8.bf16, {baseline: theirs, chosen: mine}
    if fp8.pair and fp8.pair.bf16 in shown_speeds:
        bf16 = shown_speeds[fp8.pair.bf16]
    elif fp8.pair:
        runs = history.counted_runs(fp8.pair.bf16, fp8.pair.fp8)
        bf16 = _beside(shown_speeds.get(fp8.pair.fp8), fp8.bf16, fp8.gain, runs)
    fp8_pairs = len(history.pairs(*(fp8.pair or (None, None))))
    return Measured(
        estimate(mine, pairs or _count(history, chosen)),
        estimate(theirs, pairs or _count(history, baseline)),
        gain_of(history, chosen, baseline),
        estimate(bf16, fp8_pairs),
        fp8.gain and estimate(fp8.gain, fp8_pairs),
        _fp8_verdict(fp8.gain, fp8_pairs, history.noise.same),
        fp8_pairs,
        fp8.pair,
    )


def _beside(
    chosen: Speed | None,
    other: Speed | None,
    gap: Speed | None,
    runs: Sequence[Trial],
) -> Speed | None:
    """Return a speed as it stands beside ``chosen``, which is faster by ``gap``.

    The gap is from pairs of runs, so the middles of the runs do not have it exactly.
    The speed is never above all ``runs``, which measured it.
    """
    if chosen is None or other is None or gap is None:
        return other
    fastest = max(trial.record.tokens_per_second for trial in runs)
    factor = min(chosen.value / gap.value, fastest) / other.value
    return Speed(*(factor * end for end in other))


def _record(runs: Runs) -> Record | None:
    """Return the record of the last trial that succeeded, with the peak of all."""
    if not runs.ran:
        return None
    records = [trial.record for trial in runs]
    return runs.succeeded[-1]._replace(
        peak_gib=max(record.peak_gib for record in records),
        reserved_gib=max(record.reserved_gib for record in records),
    )


def _count(history: History, point: Point | None) -> int:
    return sum(trial.record.ok for trial in history.runs(point).telling)


def _fp8_verdict(gain: Speed | None, pairs: int, same: float) -> str:
    if gain is None or not is_enough(gain, pairs):
        return "inconclusive"
    likely = verdict(gain, same)
    return "inconclusive" if likely == "same" and gain.half > 2 * same else likely
