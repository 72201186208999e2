"""What a search prints while it runs, and its answer for programs."""

from __future__ import annotations

from typing import Any

from fp8tune.search.answer import Answer
from fp8tune.search.benefit import reached
from fp8tune.search.budget import show_duration
from fp8tune.search.coordinator import Event
from fp8tune.search.extrapolation import band, extrapolation
from fp8tune.search.failed import failed
from fp8tune.search.objective import (
    ENERGY,
    SPEED,
    UNITS,
    count_without_value,
    show_value,
    tokens_per_joule,
)
from fp8tune.search.plan import Plan
from fp8tune.search.stability import findings as stability
from fp8tune.search.statistics import Speed
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial


def as_json(
    found: Answer, space: Space, output: str, study: str, untied: str = ""
) -> dict[str, Any]:
    """The answer as the one object that programs read.

    ``untied`` says that FP8 and bf16 were compared as different models.
    """
    return {
        "version": 1,
        "knobs": None if found.chosen is None else space.values(found.chosen),
        "verdict": found.verdict,
        "tokens_per_second": {
            "chosen": _speed(found.speed),
            "baseline": _speed(found.given),
            "bf16_baseline": _speed(found.twin),
        },
        "gain": _speed(reached(found).gain),
        "pairs": found.evidence.pairs,
        "pairs_far_off": found.evidence.far_off,
        "runner_up": _second(found, space),
        "fp8_gain": found.fp8_gain,
        "fp8_gain_interval": _speed(found.fp8),
        "fp8_gain_of": found.pair
        and {name: space.values(p) for name, p in found.pair._asdict().items()},
        "confirmed": found.confirmed,
        "baseline_outcome": found.given_outcome or None,
        "objective": found.aim,
        "tokens_per_joule": _energy(found),
        "unfit": [
            {"knobs": space.values(point), "why": why}
            for point, why in found.unfit.items()
        ],
        "trials": found.trials,
        "settings": dict(zip(("tried", "untried"), found.evidence[2:], strict=True)),
        "oom_trials": found.oom_trials,
        "seconds": round(found.seconds, 3),
        "output": output or None,
        "study": study,
        "extrapolated": extrapolation(found.record),
        "synthetic_data": found.record and found.record.synthetic_data,
        "stability": _stability(found, untied),
    }


def _energy(found: Answer) -> dict[str, Any]:
    return {
        "chosen": _speed(found.energy.chosen),
        "baseline": _speed(found.energy.given),
        "bf16_baseline": _speed(found.energy.twin),
        "fp8_gain": _speed(found.energy.fp8),
    }


def _second(found: Answer, space: Space) -> dict[str, Any] | None:
    if found.runner_up is None:
        return None
    return {"knobs": space.values(found.runner_up), "gain": _speed(found.behind)}


def _stability(found: Answer, untied: str) -> dict[str, Any] | None:
    """How FP8 learns at the chosen setting, else at the one that this rejected."""
    told = found.learns or next(iter(found.rejected.values()), None)
    return stability.as_json(told, found.unchecked, untied)


def _speed(measured: Speed | None) -> dict[str, float] | None:
    return None if measured is None else measured._asdict()


def progress(event: Event, plan: Plan, aim: str = SPEED) -> str:
    """One line for an event: what starts, or what came of it."""
    what = describe(plan, event.proposal.point)
    if event.trial is None:
        left = show_duration(max(0.0, event.left))
        return f"trying {what} ({event.proposal.reason}; {left} left)"
    record = event.trial.record
    joules = tokens_per_joule(record) if aim == ENERGY else 0.0
    told = f", {show_value(joules, aim)} {UNITS[aim]}" if joules else ""
    if count_without_value(aim, [record]):
        told = ", does not count: watts unknown"
    return f"  {outcome(event.trial)}{told}"


def outcome(trial: Trial) -> str:
    """How a trial ended, in a few words."""
    record = trial.record
    if record.ok and record.loss_run:
        return f"loss {_last(record)}, {show_duration(record.cost_s)}"
    if not record.ok:
        why = f": {record.message}" if record.message else ""
        return f"{failed(trial)} after {show_duration(record.cost_s)}{why}"
    peak = f", peak {record.peak_gib:.1f} GiB" if record.peak_gib else ""
    why = f"; may not be chosen: {why}" if (why := record.memory_shortage) else ""
    rate = f"{record.tokens_per_second:,.0f} tokens/s{band(record)}"
    return f"{rate}{peak}, {show_duration(record.cost_s)}{why}"


def _last(record: Record) -> str:
    return f"{record.losses[-1]:.4g}" if record.losses else "unknown"


def describe(plan: Plan, point: Point) -> str:
    """A point by what differs from the given one."""
    pairs = zip(plan.space.knobs, plan.baseline, point, strict=True)
    changed = [
        f"{knob.key.rpartition('.')[2]} = {str(knob.values[new]).lower()}"
        for knob, old, new in pairs
        if old != new
    ]
    return ", ".join(changed) or "your config"
