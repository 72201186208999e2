"""Decide the answer of a search from its trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.search.answer.answer import (
    ROLES,
    Answer,
    Ending,
    Estimate,
    Measured,
    Setting,
)
from fp8tune.search.answer.choice import (
    Chosen,
    Fp8Comparison,
    choose,
    compare_fp8,
    is_enough,
)
from fp8tune.search.answer.findings import (
    Case,
    answers,
    config_findings,
    failed_before,
    failures,
    findings,
    machine_findings,
)
from fp8tune.search.history import History, Runs
from fp8tune.search.objective import ENERGY, SPEED
from fp8tune.search.plan import Plan
from fp8tune.search.statistics import Speed, shown, verdict
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point
from fp8tune.trials.trial import Trial, charged_seconds, trials_that_counted


def decide(
    history: History,
    seconds: float,
    objective: str = SPEED,
    ending: Ending | None = None,
) -> Answer:
    """Decide the answer of a search that took ``seconds``, from its trials."""
    wanted, baseline = history.by(objective), history.baseline
    chosen = choose(wanted)
    allowed = set(history.space.points(baseline))
    tried = wanted.settings.keys()
    speed, energy = (_measured(history.by(o), chosen.point) for o in (SPEED, ENERGY))
    measured = energy if objective == ENERGY else speed
    answer = Answer(
        chosen=chosen.point,
        verdict=chosen.verdict,
        objective=objective,
        speed=speed,
        energy=energy,
        runner_up=chosen.runner_up,
        record=_record(history.runs(chosen.point)),
        pairs=len(wanted.pairs(chosen.point, baseline)),
        tried=len(allowed & tried),
        untried=len(allowed - tried),
        trials=len(history.trials),
        oom_trials=sum(trial.record.outcome == "oom" for trial in history.trials),
        seconds=seconds,
        baseline_outcome=history.runs(baseline).failed_always,
        settings=_settings(history, wanted, chosen, measured),
        speed_changed=_speed_changed(history),
        stability=history.stability,
        ending=ending or Ending(),
    )
    case = Case(wanted, chosen, answer)
    answering = answers(case)
    every = tuple(findings(case, history.trials, answering))
    return answer._replace(findings=every, answered_by=answering.code)


def answer_so_far(
    plan: Plan,
    trials: Sequence[Trial],
    objective: str = SPEED,
    ending: Ending | None = None,
    *,
    compares_losses: bool,
) -> Answer:
    """Decide the answer that trials give, without the findings that need the config.

    Until a search that compares losses has done so, it chooses no changed FP8.
    """
    trials_in = trials_that_counted(trials)
    history = History(plan.space, plan.baseline, trials_in, proven_only=compares_losses)
    answer = decide(history, charged_seconds(trials), objective, ending)
    return answer._replace(trials=len(trials))


def with_config(
    outcome: Answer,
    plan: Plan,
    trials: Sequence[Trial],
    device: str = "",
    process: int = 0,
) -> Answer:
    """Add the findings that need the config itself, and why no trial succeeded.

    ``device`` is where trials ran, ``""`` in a replay. ``process`` is the number of the
    process that has ended its search, 0 if none has.
    """
    more = [*config_findings(outcome, plan)]
    if outcome.chosen is None and trials and not outcome.rejected:
        more += failures(outcome, plan, trials)
    if outcome.chosen is None and device:
        more += machine_findings(trials, on_cpu=device == "cpu")
    if outcome.chosen is not None:
        more += failed_before(trials, process, outcome)
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


def _settings(
    history: History, wanted: History, chosen: Chosen, measured: Measured
) -> dict[Point, Setting]:
    """Return every setting that was tried; ``wanted`` is in the objective."""
    point, baseline, eligible = chosen.point, wanted.baseline, set(wanted.eligible)
    rejects = any(result.rejects for result in history.stability.values())
    roles = _roles(wanted, chosen, measured)
    settings = {}
    for each, own in history.settings.items():
        value = _value(wanted, each, point, measured)
        other = baseline if each == point else point
        runs = wanted.counted_runs(each, other)
        least = min((t.record.tokens_per_second for t in runs), default=0.0)
        may_run = wanted.space.allows(each, baseline) and own.ran
        settings[each] = Setting(
            point=each,
            roles=tuple(name for name in ROLES if roles[name] == each),
            outcome="ok" if own.ran else own.failed_always or "cut-off",
            runs=len(own),
            is_eligible=each in eligible and not own.memory_shortage,
            memory_shortage=own.memory_shortage,
            failed_later=own.failed_later,
            diverges=may_run and rejects and each not in eligible,
            value=value,
            is_scaled=bool(value and value.value < least * (1 - 1e-9)),
            peak_gib=max(trial.record.peak_gib for trial in own),
            vs_baseline=gain_of(wanted, each, baseline),
            vs_chosen=gain_of(wanted, each, point),
            pairs=len(wanted.pairs(each, point)),
            trials=wanted.numbers(each, other),
        )
    front = _frontier(settings.values())
    return {p: own._replace(on_frontier=p in front) for p, own in settings.items()}


def _roles(
    history: History, chosen: Chosen, measured: Measured
) -> dict[str, Point | None]:
    """Return the setting that has each role in the answer."""
    points = filter(None, (chosen.point, history.baseline))
    in_bf16 = (history.space.with_precision(p, "bf16") for p in points)
    bf16 = next((p for p in in_bf16 if history.runs(p)), None)
    bf16 = measured.pair.bf16 if measured.pair else bf16
    return dict(
        zip(
            ROLES,
            (chosen.point, history.baseline, bf16, chosen.runner_up),
            strict=True,
        )
    )


def _value(
    history: History, point: Point, chosen: Point | None, measured: Measured
) -> Estimate | None:
    """Return the objective of a setting by its own runs.

    The runs are those that compare with the chosen setting. If there are none in the
    confirmation and the chosen setting became slower there, the machine may have: the
    value is scaled down by as much. No value is above all its runs.
    """
    pair = measured.pair
    if point == chosen:
        return measured.chosen
    if point == history.baseline and measured.baseline:
        return measured.baseline
    if pair and (pair.fp8, pair.bf16) == (chosen, point):
        return measured.bf16_baseline
    value, beside = history.speeds(point, chosen)
    apart = history.gap(point, chosen) and not history.pairs(point, chosen)
    if value and beside and apart and measured.chosen:
        factor = min(1.0, measured.chosen.value / beside.value)
        value = Speed(*(factor * end for end in value))
    return estimate(value, len(history.counted_runs(point, chosen)))


def _frontier(settings: Iterable[Setting]) -> set[Point]:
    """Return the eligible settings that no other beats in both value and memory."""
    placed = [(s, s.value.value) for s in settings if s.is_eligible and s.value]
    best, front = 0.0, set()
    for setting, value in sorted(placed, key=lambda each: (each[0].peak_gib, -each[1])):
        if setting.peak_gib and value > best:
            best = value
            front.add(setting.point)
    return front


def _speed_changed(history: History) -> tuple[float, float] | None:
    """Return the lowest and highest change of speed between search and confirmation.

    ``None`` if it is small. Beside other trials all are slower than alone.
    """
    if history.most_at_once > 1 or not history.speed_changed:
        return None
    return min(history.changes), max(history.changes)


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
        chosen=estimate(mine, pairs or _count(history, chosen)),
        baseline=estimate(theirs, pairs or _count(history, baseline)),
        gain=gain_of(history, chosen, baseline),
        bf16_baseline=estimate(bf16, fp8_pairs),
        fp8_gain=fp8.gain and estimate(fp8.gain, fp8_pairs),
        fp8_verdict=_fp8_verdict(fp8.gain, fp8_pairs, history.noise.same),
        fp8_pairs=fp8_pairs,
        pair=fp8.pair,
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
