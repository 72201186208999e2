"""What a tuned config says of its values: a block, and one line for each key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.job import Unknown
from fp8tune.search.answer import LARGER_BUDGET, Answer
from fp8tune.search.benefit import reached
from fp8tune.search.caveats import may_diverge, predicted, untied
from fp8tune.search.extrapolation import band, sentence
from fp8tune.search.failed import WORDS
from fp8tune.search.objective import ENERGY, SPEED, UNITS, show_value
from fp8tune.search.plan import Plan, show_gpus, warmup_key
from fp8tune.search.stability import findings as stability
from fp8tune.search.statistics import Speed
from fp8tune.search.writeback import Choice
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point, shown

PAIRS = 2
"""Fewest pairs of runs of which a gain is called more than inconclusive."""
WIDE = 2.0
"""An interval whose ends differ by this factor or more is not shown."""


def choices(plan: Plan, found: Answer) -> list[Choice]:
    """Return the keys to write, each with what it was and why it changed."""
    if found.chosen is None:
        return []
    before, after = plan.space.values(plan.baseline), plan.space.values(found.chosen)
    indices = zip(plan.space.knobs, plan.baseline, found.chosen, strict=True)
    changed = [knob for knob, old, new in indices if old != new]
    made = [
        Choice(
            knob.key,
            after[knob.key],
            f"{shown(before.get(knob.key))} -> {shown(after[knob.key])}"
            + _why(plan, found, knob.key, len(changed)),
        )
        for knob in changed
        if knob.key in after
    ]
    return [*made, *_accumulation(plan, before, after), *_warmup(plan, found)]


def summary(plan: Plan, found: Answer, study: str) -> list[str]:
    """Return the sentences of the block, one for each line, the first ones first."""
    record = found.record
    lines = (
        _verdict(plan, found),
        "; ".join((*_memory(plan, found), *_runner_up(plan, found))),
        _against_bf16(plan, found),
        "; ".join(_learning(plan, found)),
        "; ".join(_environment(record)) if record else "",
        "; ".join(_study(plan, found, study)),
    )
    return [line for line in lines if line]


def _why(plan: Plan, found: Answer, key: str, changes: int) -> str:
    """Return why one key changed, as far as the trials tell."""
    if key == getattr(plan.space.knob("precision"), "key", "") and found.rejected:
        return ": FP8 diverged where bf16 did not"
    if failed := WORDS.get(found.given_outcome):
        return f": the baseline failed: {failed}"
    if found.runner_up and found.behind and found.chosen:
        apart = [
            (knob, other)
            for knob, mine, other in zip(
                plan.space.knobs, found.chosen, found.runner_up, strict=True
            )
            if mine != other
        ]
        knob, other = apart[0]
        if len(apart) == 1 and knob.key == key and changes > 1 and _is_told(found):
            return f": with {shown(knob.values[other])} it is {_change(found.behind)}"
    gain = reached(found).gain
    if gain is None:
        return ""
    together = f" by {changes} changes together" * (changes > 1)
    unclear = "" if _is_told(found) else " (inconclusive)"
    return f": {_percent(gain)} {_unit(found.aim)}{together}{unclear}"


def _is_told(found: Answer) -> bool:
    """Whether the gain is more than inconclusive."""
    return found.verdict != "inconclusive" and found.evidence.pairs >= PAIRS


def _verdict(plan: Plan, found: Answer) -> str:
    best, given, _, gain, *_ = reached(found)
    aim = found.aim
    if found.chosen == plan.baseline or best is None:
        return ""
    mark = band(found.record) if found.record else ""
    after = f"{show_value(best.value, aim)} {UNITS[aim]}{mark}"
    if failed := WORDS.get(found.given_outcome):
        return f"{after}; the baseline failed: {failed}"
    if given is None or gain is None:
        return f"{after}; the baseline was not measured beside it"
    speeds = f"{show_value(given.value, aim)} -> {show_value(best.value, aim)}"
    if _is_told(found):
        said = f"{found.verdict}: {_change(gain, _unit(aim))}, {speeds}{mark}"
        return f"{said}, {_pairs(found)}{_other(found)}"
    why = predicted(found)
    if not why and found.more == LARGER_BUDGET:
        why = "give a larger --budget"
    said = f"inconclusive ({_pairs(found)}): {speeds} {_unit(aim)}{mark}"
    return f"{said}{_other(found)}" + f"; {why}" * bool(why)


def _pairs(found: Answer) -> str:
    """Return how many pairs of runs a gain is of."""
    pairs, out = found.evidence.pairs, found.evidence.far_off
    said = f"{pairs or 'no'} pair{'s' * (pairs > 1)} of runs"
    return said + f", {out} left out as outliers" * bool(out)


def _other(found: Answer) -> str:
    """Return the gain in the figure that is not the objective, if it is known."""
    _, _, _, gain, *_ = reached(found, aimed_at=False)
    unit = _unit(SPEED if found.aim == ENERGY else ENERGY)
    return f"; {_percent(gain)} {unit}" if gain else ""


def _memory(plan: Plan, found: Answer) -> Iterator[str]:
    record = found.record
    if record and record.peak_gib:
        capacity = record.capacity_gib
        of = f" of {capacity:.1f}" if capacity else ""
        yield f"peak memory {record.peak_gib:.1f}{of} GiB"
    if little := found.unfit.get(plan.baseline):
        yield f"the baseline left too little: {little}"


def _runner_up(plan: Plan, found: Answer) -> Iterator[str]:
    if found.runner_up is not None and found.chosen != plan.baseline:
        what = _difference(plan, found.runner_up)
        gap = found.behind if _is_told(found) else None
        yield f"runner-up: {what}" + (f", {_change(gap)}" if gap else "")


def _against_bf16(plan: Plan, found: Answer) -> str:
    """Return how FP8 does beside bf16; a rehearsal on a CPU cannot tell."""
    _, _, _, _, gain, pair = reached(found)
    if gain is None or pair is None or _is_rehearsal(found.record):
        return ""
    chosen = found.chosen and plan.space.with_precision(found.chosen, "fp8")
    where = "" if chosen in (None, pair.fp8) else " at the baseline's setting"
    if gain.high >= WIDE * gain.low:
        return f"FP8 vs bf16{where}: inconclusive"
    pays = "; FP8 does not pay here" if gain.high < 1 else ""
    return f"FP8 vs bf16{where}: {_change(gain, _unit(found.aim))}{pays}"


def _learning(plan: Plan, found: Answer) -> Iterator[str]:
    """Yield whether FP8 learns as bf16 does."""
    for point, wrong in found.rejected.items():
        yield f"rejected: {_difference(plan, point)}: {stability.verdict_line(wrong)}"
    if found.learns:
        two = " (FP8 unties the embeddings: two models)" * bool(untied(found, plan))
        doubt = stability.warning(found.learns)
        yield doubt or f"stability{two}: {stability.verdict_line(found.learns)}"
    elif found.unchecked:
        yield f"stability not checked: {found.unchecked}"
    if said := may_diverge(found, plan):
        yield said


def _environment(record: Record) -> Iterator[str]:
    """Yield what the trials ran on."""
    if _is_rehearsal(record):
        yield "rehearsal on a CPU: no figure of a GPU"
    parts = [record.environment]
    for name in ("torchao", "driver", "allocator"):
        version = record.versions.get(name, "")
        if version not in ("", "default"):
            parts.append(f"{name} {version}")
    if record.environment:
        yield ", ".join(parts)
    if how := sentence(record):
        yield how


def _is_rehearsal(record: Record | None) -> bool:
    return record is not None and record.rehearsal


def _study(plan: Plan, found: Answer, study: str) -> Iterator[str]:
    number = f"trial {found.number + 1} of " if found.number is not None else ""
    count = f"{found.trials}" if number else f"{found.trials} trials"
    gpus = plan.config.job.target.world_size
    yield f"study {study}, {number}{count}" + f", for {show_gpus(gpus)}" * bool(gpus)
    if found.record and found.record.synthetic_data:
        yield "trained on synthetic data"


def _difference(plan: Plan, other: Point) -> str:
    pairs = zip(plan.space.knobs, plan.baseline, other, strict=True)
    parts = [
        f"{knob.key.rpartition('.')[2]} = {shown(knob.values[new])}"
        for knob, old, new in pairs
        if old != new
    ]
    return ", ".join(parts) or "the baseline"


def _unit(aim: str) -> str:
    return "tokens per joule" if aim == ENERGY else UNITS[aim]


def _percent(gain: Speed) -> str:
    return f"{100 * (gain.value - 1):+.1f} %"


def _change(gain: Speed, unit: str = "") -> str:
    """Return a ratio as ``+4.1 % (+3.0 to +5.2)``; without an interval that is wide."""
    said = f"{_percent(gain)} {unit}".rstrip()
    if gain.high >= WIDE * gain.low:
        return said
    low, high = (100 * (end - 1) for end in gain[1:])
    return f"{said} ({low:+.1f} to {high:+.1f})"


def _warmup(plan: Plan, found: Answer) -> Iterator[Choice]:
    """Yield another warmup, where the search was allowed to change it."""
    asked = stability.change(found.learns) if found.learns else None
    if asked:
        yield Choice(warmup_key(plan.config.trainer), *asked)


def _accumulation(
    plan: Plan, before: dict[str, Any], after: dict[str, Any]
) -> Iterator[Choice]:
    """Yield the gradient accumulation with which a step keeps its tokens."""
    batch = plan.space.knob("micro_batch")
    key = plan.config.trainer.schema.job.get("grad_accum", "")
    if batch is None or not key or key in after:
        return
    old, new = before.get(batch.key), after.get(batch.key)
    steps = _steps(plan)
    if old == new or not all(type(n) is int and n > 0 for n in (old, new, steps)):
        return
    kept = max(1, round(old * steps / new))
    exact = kept * new == old * steps
    tokens = f"{old} x {steps} -> {new} x {kept} sequences per rank and step"
    reason = tokens if exact else f"{tokens}: as near as it gets; check the schedule"
    if kept != steps or not exact:
        yield Choice(key, kept, reason)


def _steps(plan: Plan) -> Any:
    try:
        return plan.config.job["grad_accum"]
    except Unknown:
        return None
