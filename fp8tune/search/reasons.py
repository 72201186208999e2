"""Why each value was chosen, in sentences for the comments of the tuned config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.job import Unknown
from fp8tune.search.aim import ENERGY, SPEED, UNITS, figure
from fp8tune.search.answer import Answer
from fp8tune.search.benefit import reached
from fp8tune.search.caveats import may_diverge, unsure, untied
from fp8tune.search.closing import no_gain, of_pairs
from fp8tune.search.extrapolation import sentence
from fp8tune.search.failed import WORDS
from fp8tune.search.plan import Plan, warmup_key
from fp8tune.search.record import Record, capacity_gib
from fp8tune.search.space import Point, shown
from fp8tune.search.stability import words as stability
from fp8tune.search.world import counted
from fp8tune.search.writeback import Choice, explained
from fp8tune.toml.document import parse

KEPT = "set by an earlier search, kept by this one"


def choices(plan: Plan, found: Answer, study: str) -> list[Choice]:
    """The changed keys, and what follows them, with reasons."""
    if found.chosen is None:
        return []
    learned = list(_warmup(plan, found))
    if found.chosen == plan.given:
        return learned
    before, after = plan.space.values(plan.given), plan.space.values(found.chosen)
    pairs = zip(plan.space.knobs, plan.given, found.chosen, strict=True)
    changed = {knob.key for knob, old, new in pairs if old != new}
    told = explained(plan.config.data) | changed
    evidence = tuple(_evidence(plan, found, study))
    gained = _gained(found, found.aim)
    if gained and len(changed) > 1:
        gained = f"with the other changes {gained}"
    made = [
        Choice(key, value, (_change(before.get(key), value, gained), *evidence))
        for key, value in after.items()
        if key in told
    ]
    made += [*_accumulation(plan, before, after), *learned]
    return [*made, *_kept(plan, told - {choice.key for choice in made})]


def _kept(plan: Plan, told: set[str]) -> Iterator[Choice]:
    """What an earlier search explained and this one leaves: its figures are of then."""
    loaded = parse(plan.config.data).values
    for key in sorted(told):
        value: Any = loaded
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield Choice(key, value, (f"{shown(value)}: {KEPT}",))


def _warmup(plan: Plan, found: Answer) -> Iterator[Choice]:
    """Another warmup, where the search was allowed to change it."""
    asked = stability.change(found.learns) if found.learns else None
    if asked:
        yield Choice(warmup_key(plan.config.trainer), asked[0], (asked[1],))


def _change(old: Any, new: Any, gained: str) -> str:
    if (type(old), old) == (type(new), new):
        return f"{shown(new)}: {KEPT}"
    text = f"{shown(old)} -> {shown(new)}"
    return f"{text}: {gained}" if gained else text


def _gained(found: Answer, aim: str) -> str:
    """What the chosen setting gains in a figure, or what it does; ``""`` if unknown."""
    best, given, _, by, *_ = reached(found, aimed_at=aim == found.aim)
    if best is not None and found.given_outcome:
        return f"{figure(best.value, aim)} {UNITS[aim]}"
    if best is None or given is None or by is None:
        return ""
    gain, low, high = (100 * (x - 1) for x in by)
    what = "tokens per joule" if aim == ENERGY else UNITS[aim]
    before, after = (f"{figure(s.value, aim)} {UNITS[aim]}" for s in (given, best))
    counted = of_pairs(found) if aim == found.aim else ""
    sure = f"({low:+.1f} to {high:+.1f}){counted}"
    return f"{gain:+.1f} % {what} {sure}, {before} -> {after}"


def _evidence(plan: Plan, found: Answer, study: str) -> Iterator[str]:
    if found.verdict == "unsure":
        why = unsure(found) if found.confirmed else "not both measured again"
        yield f"unsure: {why}" if why else "unsure"
    if said := no_gain(found, plan.space):
        rehearsed = found.record and found.record.more.get("rehearsal") is True
        yield f"on this CPU {said}" if rehearsed else said
    if said := _gained(found, SPEED if found.aim == ENERGY else ENERGY):
        yield f"beside that {said}"
    if found.record is not None:
        yield from _of_trial(found.record)
    yield from _learning(plan, found)
    if failed := WORDS.get(found.given_outcome):
        yield f"the config as it was failed: {failed}"
    if said := may_diverge(found, plan):
        yield said
    if little := found.unfit.get(plan.given):
        yield f"the config as it was leaves too little memory: {little}"
    if found.runner_up is not None:
        yield f"runner-up: {_difference(plan, found.runner_up)}"
    if found.record is not None:
        yield from _where(found.record)
    yield from _gpus(plan)
    number = f"trial {found.number + 1} of " if found.number is not None else ""
    count = f"{found.trials}" if number else f"{found.trials} trials"
    yield f"study {study}, {number}{count}"


def _of_trial(record: Record) -> Iterator[str]:
    """What the chosen setting's last trial tells besides its speed."""
    if record.peak_gib:
        capacity = capacity_gib(record)
        of = f" of {capacity:.1f}" if capacity else ""
        yield f"peak memory {record.peak_gib:.1f}{of} GiB"
    if said := sentence(record):
        yield said


def _gpus(plan: Plan) -> Iterator[str]:
    if gpus := plan.config.job.target.world_size:
        yield f"for a run on {counted(gpus)}"


def _where(record: Record) -> Iterator[str]:
    """What a trial ran on."""
    where = record.more.get("environment")
    if isinstance(where, str):
        rehearsed = record.more.get("rehearsal") is True
        where += "".join(f", {name} {said}" for name, said in _versions(record))
        yield f"a rehearsal, no figure of a GPU: {where}" if rehearsed else where
    if record.more.get("made_up_data") is True:
        yield "trials trained on made-up text"


def _versions(record: Record) -> Iterator[tuple[str, str]]:
    """The software beside torch, which the environment names."""
    said = record.more.get("versions")
    told = said if isinstance(said, dict) else {}
    for name in ("torchao", "driver", "allocator"):
        version = told.get(name)
        if isinstance(version, str) and version not in ("", "default"):
            yield name, version


def _learning(plan: Plan, found: Answer) -> Iterator[str]:
    """Whether FP8 learns as bf16 does."""
    if said := stability.doubt(found.learns):
        yield said
    for point, wrong in found.rejected.items():
        yield f"rejected: {_difference(plan, point)}: {stability.verdict(wrong)}"
    if found.learns:
        yield f"stability: {stability.verdict(found.learns)}"
        if said := untied(found, plan):
            yield said
    elif found.unchecked:
        yield f"stability not checked: {found.unchecked}"


def _difference(plan: Plan, other: Point) -> str:
    pairs = zip(plan.space.knobs, plan.given, other, strict=True)
    parts = [f"{k.key} = {shown(k.values[new])}" for k, old, new in pairs if old != new]
    return ", ".join(parts) or "the config as it was"


def _accumulation(
    plan: Plan, before: dict[str, Any], after: dict[str, Any]
) -> Iterator[Choice]:
    """Gradient accumulation, so that a step keeps its tokens."""
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
        yield Choice(key, kept, (reason,))


def _steps(plan: Plan) -> Any:
    try:
        return plan.config.job["grad_accum"]
    except Unknown:
        return None
