"""What a search prints: progress in plain lines, and its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fp8tune.search.aim import ENERGY, SPEED, UNITS, figure, tokens_per_joule
from fp8tune.search.answer import Answer
from fp8tune.search.coordinator import Event
from fp8tune.search.duration import shown
from fp8tune.search.extrapolation import band, extrapolation, sentence
from fp8tune.search.plan import Plan, warmup_key
from fp8tune.search.record import Record, tight
from fp8tune.search.space import Point, Space
from fp8tune.search.stability import words as stability
from fp8tune.search.stability.course import course
from fp8tune.search.statistics import SAME, Speed
from fp8tune.search.study import Trial
from fp8tune.search.tokens import rows


def as_json(found: Answer, space: Space, output: str, study: str) -> dict[str, Any]:
    """The answer as the one object that programs read."""
    return {
        "version": 1,
        "knobs": None if found.chosen is None else space.values(found.chosen),
        "verdict": found.verdict,
        "tokens_per_second": {
            "chosen": _speed(found.speed),
            "given": _speed(found.given),
            "bf16_twin": _speed(found.twin),
        },
        "gain": _speed(gained(found)),
        "fp8_gain": found.fp8_gain,
        "fp8_gain_interval": _speed(found.fp8),
        "fp8_gain_of": found.pair
        and {name: space.values(p) for name, p in found.pair._asdict().items()},
        "confirmed": found.confirmed,
        "objective": found.aim,
        "tokens_per_joule": {
            "chosen": _speed(found.energy.chosen),
            "given": _speed(found.energy.given),
            "bf16_twin": _speed(found.energy.twin),
        },
        "unfit": [
            {"knobs": space.values(point), "why": why}
            for point, why in found.unfit.items()
        ],
        "trials": found.trials,
        "oom_trials": found.oom_trials,
        "seconds": round(found.seconds, 3),
        "output": output or None,
        "study": study,
        "extrapolated": extrapolation(found.record),
        "stability": _stability(found),
    }


def _stability(found: Answer) -> dict[str, Any] | None:
    """How FP8 learns at the chosen setting, else at the one that this rejected."""
    told = found.learns or next(iter(found.rejected.values()), None)
    return stability.as_json(told, found.unchecked)


def _speed(measured: Speed | None) -> dict[str, float] | None:
    return None if measured is None else measured._asdict()


def progress(event: Event, plan: Plan, aim: str = SPEED) -> str:
    """One line for an event: what starts, or what came of it."""
    what = describe(plan, event.proposal.point)
    if event.trial is None:
        left = shown(max(0.0, event.left))
        return f"trying {what} ({event.proposal.reason}; {left} left)"
    record = event.trial.record
    joules = tokens_per_joule(record) if aim == ENERGY else 0.0
    told = f", {figure(joules, aim)} {UNITS[aim]}" if joules else ""
    return f"  {outcome(record)}{told}"


def outcome(record: Record) -> str:
    """How a trial ended, in a few words."""
    if record.ok and course(record):
        return f"loss {_last(record, 'losses')}, {shown(record.cost_s)}"
    if not record.ok:
        said = record.more.get("message")
        why = f": {said}" if isinstance(said, str) and said else ""
        return f"{WORDS[record.outcome]} after {shown(record.cost_s)}{why}"
    peak = f", peak {record.peak_gib:.1f} GiB" if record.peak_gib else ""
    why = f"; may not be chosen: {why}" if (why := tight(record)) else ""
    slow = "" if record.measured else "under "
    rate = f"{slow}{record.tokens_per_second:,.0f} tokens/s{band(record)}"
    early = ", ended early" * (not record.measured)
    return f"{rate}{peak}, {shown(record.cost_s)}{early}{why}"


def _last(record: Record, name: str) -> str:
    values = record.more.get(name)
    return f"{values[-1]:.4g}" if isinstance(values, list) and values else "unknown"


WORDS = {
    "oom": "out of memory",
    "hang": "gave no answer",
    "compile": "did not compile",
    "nan": "lost its loss (NaN)",
    "launch": "did not start",
    "throttled": "the GPU did not run at its full speed",
    "user": "the config's own code failed",
}


def describe(plan: Plan, point: Point) -> str:
    """A point by what differs from the given one."""
    pairs = zip(plan.space.knobs, plan.given, point, strict=True)
    changed = [
        f"{knob.key.rpartition('.')[2]} = {str(knob.values[new]).lower()}"
        for knob, old, new in pairs
        if old != new
    ]
    return ", ".join(changed) or "your config"


def closing(found: Answer, plan: Plan, output: str) -> Iterator[str]:
    """The answer in lines."""
    if said := no_gain(found.fp8):  # first of all
        yield said
    yield from _chosen(found, plan)
    if why := found.unfit.get(plan.given):
        yield f"your config leaves too little memory for a long run: {why}"
    if how := found.broken.get(plan.given):
        yield f"your config ran once and failed in another run: {WORDS[how]}"
    if found.twin is not None:
        what = _reference(found, plan)
        yield f"{what} {_interval(found.twin)}{_fp8_gain(found)}"
    yield from _energy(found)
    yield from _other_steps(found, plan)
    if said := sentence(found.record):
        yield said
    yield from _learning(found, plan)
    count = f"{found.trials} trial{'s' * (found.trials != 1)}"
    full = len(found.unfit)
    unfit = f", {full} setting{'s' * (full != 1)} with too little memory left"
    counted = f"{count}, {found.oom_trials} out of memory{unfit * bool(full)}"
    yield f"{counted}, {shown(found.seconds)}"
    if output:
        yield f"wrote {output}"


def _other_steps(found: Answer, plan: Plan) -> Iterator[str]:
    """That an optimizer step has other tokens, where no accumulation keeps them."""
    if found.chosen is None:
        return
    job, chosen = plan.config.job, plan.space.values(found.chosen)
    before, after = rows(job, {}), rows(job, chosen)
    if before != after and before and after:
        change = f"{before} -> {after} sequences per rank and optimizer step"
        yield f"{change}: the learning rate and its schedule were not meant for that"


def _learning(found: Answer, plan: Plan) -> Iterator[str]:
    """Whether FP8 learns as bf16 does, or that this is not known."""
    key = warmup_key(plan.config.trainer)
    for point, wrong in found.rejected.items():
        yield f"rejected: {describe(plan, point)}: {stability.verdict(wrong)}"
        yield from stability.warmup(wrong, key)
    if found.rejected and found.chosen is None:
        yield "no FP8 setting is proposed; --allow precision lets bf16 be chosen"
    if found.learns:
        yield from stability.sentences(found.learns, key)
    if found.unchecked:
        end = " to the end" * bool(found.learns)
        yield f"stability not checked{end}: {found.unchecked}"


def no_gain(gain: Speed | None) -> str:
    """That FP8 does not pay, or may not; ``""`` where it does or nothing is known."""
    if gain is None:
        return ""
    if abs(gain.value - 1) <= SAME and gain.half <= 2 * SAME:
        return f"FP8 does not pay here: as fast as bf16, {_change(gain)}"
    if gain.high < 1:
        share = _percent(gain)
        return f"bf16 is faster: FP8 does not pay here, it reaches {share} of its speed"
    if gain.value < 1:
        return f"FP8 may not pay here: it reaches {_percent(gain)} of bf16's speed"
    return ""


def _chosen(found: Answer, plan: Plan) -> Iterator[str]:
    """What was chosen, and how it does beside the given setting."""
    gain = gained(found)
    if found.chosen is None:
        yield _none_chosen(found)
    elif found.speed and found.given and gain and found.chosen != plan.given:
        yield f"{found.verdict}: {describe(plan, found.chosen)}"
        yield f"{_interval(found.given)} -> {_interval(found.speed)}"
        yield f"{_change(gain)}{JOULES * (found.aim == ENERGY)}"
        if not found.confirmed:
            yield "not both measured again, so it may be luck: a larger --budget does"
    elif found.chosen == plan.given and found.verdict == "unsure":
        yield f"unsure: {unfinished(found)}: yours stays, {_maybe(found.speed)}"
        yield "give a larger --budget to learn more"
    elif found.chosen == plan.given and found.runner_up is None:
        yield f"{_nothing_else(found)}: yours stays, {_maybe(found.speed)}"
    elif found.chosen == plan.given:
        yield f"your config is already the best: {_maybe(found.speed)}"
    else:
        yield f"best: {describe(plan, found.chosen)}, {_maybe(found.speed)}"
        yield "your config did not run beside it: no gain can be told"


def unfinished(found: Answer) -> str:
    """Why it is not known whether the given setting is the best."""
    if not found.others:
        return "no other setting ran yet"
    many = len(found.others) != 1
    said = (
        f"none of the {len(found.others)} other settings that ran is faster"
        if many
        else "the other setting that ran is no faster"
    )
    if not found.whole:
        return f"{said}, but not all were tried"
    return f"{said}, but that was not measured again"


def _none_chosen(found: Answer) -> str:
    if found.rejected:
        return "no setting is proposed: FP8 diverges where bf16 does not"
    if found.unfit or "oom" in found.broken.values():
        return "no setting that ran leaves enough memory"
    return "no setting ran each time" if found.broken else "no trial succeeded"


def _nothing_else(found: Answer) -> str:
    """Why there is no second best beside the given setting."""
    if not found.others:
        return "no other setting ran"
    wrong = dict.fromkeys(found.unfit, "oom") | dict(found.broken)
    how = {wrong.get(point, "slow") for point in found.others}
    if how == {"oom"}:
        return "no other setting that ran leaves enough memory"
    return f"no other setting {'is as fast' if 'slow' in how else 'ran each time'}"


JOULES = " tokens per joule"


def gained(found: Answer) -> Speed | None:
    """How much better the chosen setting is, by the aim."""
    return found.energy.gain if found.aim == ENERGY else found.gain


def _energy(found: Answer) -> Iterator[str]:
    each, before = found.energy.chosen, found.energy.given
    if each:
        yours = f", yours {before.value:.3g}" if before else ""
        yield f"{each.value:.3g} tokens per joule{yours}"


def _reference(found: Answer, plan: Plan) -> str:
    """Which bf16 it is that FP8 is held against."""
    if found.pair is None:
        return "bf16 twin"
    fp8, bf16 = found.pair
    space = plan.space
    if bf16 == space.with_precision(fp8, "bf16"):
        mine = fp8 == space.with_precision(plan.given, "fp8")
        return f"bf16 twin of {'your config' if mine else 'this setting'}"
    alike = plan._replace(given=space.with_precision(fp8, "bf16") or fp8)
    return f"bf16 at its best, {describe(alike, bf16)},"


def _fp8_gain(found: Answer) -> str:
    return f": FP8 gains {_change(found.fp8)}" if found.fp8 else ""


def _change(gain: Speed) -> str:
    """A ratio as what it gains: ``+4.1 % (+3.0 to +5.2)``."""
    value, low, high = (100 * (x - 1) for x in gain)
    return f"{value:+.1f} % ({low:+.1f} to {high:+.1f})"


def _percent(share: Speed) -> str:
    value, low, high = (100 * x for x in share)
    return f"{value:.1f} % ({low:.1f} to {high:.1f})"


def advice(plan: Plan, trials: Sequence[Trial], budget: float) -> Iterator[str]:
    """Why nothing succeeded, and what to do."""
    outcomes = Counter(trial.record.outcome for trial in trials if not trial.record.ok)
    for outcome, count in outcomes.most_common():
        yield f"{count} trial{'s' * (count > 1)}: {WORDS[outcome]}"
    if not any(True for _ in plan.space.points(plan.given)):
        yield from plan.notes
        yield "no record keeps the config's frozen knobs; --allow precision frees that"
    elif all("budget_s" in trial.record.more for trial in trials):
        yield f"no trial ended within {shown(budget)}; give a larger --budget"
    elif outcomes["oom"]:
        yield "try a smaller micro-batch, full activation checkpointing or more GPUs"


def _interval(measured: Speed) -> str:
    low, high = f"{measured.low:,.0f}", f"{measured.high:,.0f}"
    return f"{measured.value:,.0f} tokens/s ({low} to {high})"


def _maybe(measured: Speed | None) -> str:
    return _interval(measured) if measured else "not measured"
