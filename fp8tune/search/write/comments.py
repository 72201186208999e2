"""The comments of a tuned config: a block on the search, and one line for each key."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fp8tune.formats.values import same
from fp8tune.search.answer.answer import Answer, is_untied
from fp8tune.search.answer.wording import (
    FAILURES,
    behind,
    gib,
    listed,
    messages,
    percent,
    unit,
)
from fp8tune.search.losses import findings as stability
from fp8tune.search.plan import Plan
from fp8tune.search.write.writeback import LONGEST, Choice
from fp8tune.trials.space import shown
from fp8tune.words import counted

WHY = ("losses-not-compared", "not-confirmed", "one-pair-only", "more-pairs-needed")
FP8 = ("fp8-faster-than-bf16", "fp8-as-fast-as-bf16", "fp8-slower-than-bf16")


def choices(plan: Plan, outcome: Answer) -> list[Choice]:
    """Return the keys to write, each with its old value and why it changed."""
    if outcome.chosen is None:
        return []
    before, after = plan.space.values(plan.baseline), plan.space.values(outcome.chosen)
    indices = zip(plan.space.knobs, plan.baseline, outcome.chosen, strict=True)
    changed = [knob for knob, old, new in indices if old != new]
    given = {**plan.config.job.given, **before}
    made = [
        Choice(
            key,
            value,
            f"{shown(given.get(key))} -> {shown(value)}"
            + _why(plan, outcome, knob.key, len(changed)),
        )
        for knob in changed
        if knob.key in after
        for key, value in plan.config.job.keys_for({knob.key: after[knob.key]}).items()
        if not same(given.get(key), value)
    ]
    return [*made, *_accumulation(plan, before, after), *_warmup(plan, outcome)]


def summary(
    plan: Plan, outcome: Answer, study: str, commands: Sequence[str]
) -> list[str]:
    """Return the lines of the block, the most important first.

    ``study`` names the study and says what it is: ``study a-1`` or ``replay a-1``.
    ``commands`` are those to type next.
    """
    findings = outcome.findings
    fp8 = [f for f in findings if f.facts.get("objective") == outcome.objective]
    doubts = (*WHY, "communication-decides", "pairs-left-out")
    overrides = plan.config.written
    first = (outcome.answered_by, *doubts)
    groups = (
        (*messages(findings, *first), *messages(findings, "other-objective")),
        [f"next: {command}" for command in commands],
        (*_memory(outcome), *messages(findings, "runner-up")),
        messages(findings, "samples-may-be-shorter"),
        messages(fp8, *FP8, "fp8-inconclusive"),
        _learning(plan, outcome),
        _environment(outcome),
        _study(plan, outcome, study),
        [f"from the command line: {shlex.join(overrides)}"] if overrides else [],
    )
    return [line for sentences in groups if (line := _joined(sentences))]


def _joined(sentences: Iterable[str]) -> str:
    """Return the sentences that fit into one text of a comment."""
    line = ""
    for sentence in sentences:
        longer = f"{line}; {sentence}" if line else sentence
        line = longer if len(longer) <= LONGEST else line
    return line


def _why(plan: Plan, outcome: Answer, key: str, count: int) -> str:
    """Return why one of ``count`` changed keys has its new value."""
    if key == getattr(plan.space.knob("precision"), "key", "") and outcome.rejected:
        return ": FP8 diverged where bf16 did not"
    if outcome.find("baseline-failed"):
        return f": your config failed: {FAILURES[outcome.baseline_outcome]}"
    second = outcome.find("runner-up")
    differs = second.facts["differs"] if second else {}
    if second and [*differs] == [key] and count > 1 and outcome.is_conclusive:
        return f": with {shown(differs[key])} it is {behind(second.facts)}"
    if count > 1:
        return f": one of {count} changes measured together"
    if (gain := outcome.measured.gain) is None:
        return ""
    unclear = "" if outcome.is_conclusive else " (inconclusive)"
    return f": {percent(gain.value)} {unit(outcome.objective)}{unclear}"


def _memory(outcome: Answer) -> Iterator[str]:
    record = outcome.record
    if record and record.peak_gib:
        capacity = record.capacity_gib
        of = f" of {capacity:.1f}" if capacity else ""
        yield f"peak memory {gib(record.peak_gib)}{of} GiB"
    yield from messages(outcome.findings, "memory-shortage", "baseline-unreliable")


def _learning(plan: Plan, outcome: Answer) -> Iterator[str]:
    """Yield what changes training, and how FP8's losses compare with bf16's."""
    yield from messages(outcome.findings, "other-tokens-per-step")
    yield from messages(outcome.findings, "setting-rejected", "fp8-may-diverge")
    if outcome.learns and not outcome.find("fp8-may-diverge"):
        two = " (FP8 unties the embeddings: two models)" * is_untied(outcome, plan)
        yield f"stability{two}: {stability.verdict_line(outcome.learns)}"
    yield from messages(outcome.findings, "stability-not-checked", "may-end-in-nan")


def _environment(outcome: Answer) -> Iterator[str]:
    """Yield the hardware and software of the trials."""
    yield from messages(outcome.findings, "rehearsal")
    if outcome.record and outcome.record.environment:
        parts = [outcome.record.environment]
        for name in ("torchao", "driver", "allocator"):
            version = outcome.record.versions.get(name, "")
            if version not in ("", "default"):
                parts.append(f"{name} {version}")
        yield ", ".join(parts)
    yield from messages(outcome.findings, "extrapolated")


def _study(plan: Plan, outcome: Answer, study: str) -> Iterator[str]:
    gpus = plan.config.job.target.world_size
    on = f", for {counted(gpus, 'GPU')}" * bool(gpus)
    yield f"from {listed('trial', outcome.numbers)} of {study}{on}"
    yield from messages(outcome.findings, "synthetic-data")


def _warmup(plan: Plan, outcome: Answer) -> Iterator[Choice]:
    """Yield the new warmup, if the search was allowed to change it."""
    asked = stability.change(outcome.learns) if outcome.learns else None
    if asked:
        keys = plan.config.job.keys_for({"warmup_steps": asked[0]})
        yield from (Choice(key, value, asked[1]) for key, value in keys.items())


def _accumulation(
    plan: Plan, before: dict[str, Any], after: dict[str, Any]
) -> Iterator[Choice]:
    """Yield the gradient accumulation with which trials kept the tokens of a step."""
    batch = plan.space.batch_knob
    job, key = plan.config.job, plan.config.trainer.key_of("grad_accum")
    if batch is None or not key or key in after:
        return
    changed = job.keep_tokens(after)
    old, new = before.get(batch.key), after.get(batch.key)
    steps, kept = job.find("grad_accum"), changed.find("grad_accum")
    if not all(type(n) is int and n > 0 for n in (old, new, steps, kept)):
        return
    sizes = (j.find("step.tokens") or j.rank_sequences for j in (job, changed))
    exact = len({*sizes}) == 1
    tokens = f"{old} x {steps} -> {new} x {kept} sequences per rank and step"
    reason = tokens if exact else f"{tokens}: as near as it gets; check the schedule"
    if kept != steps or not exact:
        for name, value in job.with_values(after).keys_for({key: kept}).items():
            yield Choice(name, value, reason)
