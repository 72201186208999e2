"""Turn the lines that a trial's worker printed into the trial's record."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.process import WorkerResult, unfinished
from fp8tune.trials.record import (
    OUTCOMES,
    BadRecord,
    Record,
    from_data,
)

KEPT = (
    "float8_matmuls_counted_earlier",
    "capacity_gib",
    "alloc_retries",
    "recompiles",
    "float8_matmuls",
    "discarded",
    "settled",
    "micro_batches",
    "ranks",
    "peak_rank",
)
"""What the worker says at its end that goes into the record as it is.

``float8_matmuls_counted_earlier``: another trial of the setting counted them."""

VERSIONS = ("torch", "torchao", "cuda", "allocator")
"""Fields of the worker's software and the allocator's environment."""


def worker_record(
    knobs: dict[str, Any], spec: Spec, result: WorkerResult, last_line: str
) -> Record:
    """Return the record of a worker; ``last_line`` is its last line on stderr."""
    found = _base_record(knobs, spec, result, _event(result, "done"), last_line)
    return found._replace(
        import_s=_seconds(result, "import", "build"),
        compile_s=_seconds(result, "compile", "first_step"),
    )


def _seconds(result: WorkerResult, first: str, last: str) -> float:
    """Return the time from one stage to another [s]; 0 if it did not reach both."""
    start, end = stage_times(result, first, last)
    return round(max(0.0, end - start), 3)


def stage_times(result: WorkerResult, first: str, last: str) -> tuple[float, float]:
    """Return when two stages began [s since 1970]; zeros if one did not."""
    at = {str(event.get("stage")): event.get("at") for event in result.events}
    start, end = at.get(first), at.get(last)
    if isinstance(start, float) and isinstance(end, float):
        return start, end
    return 0.0, 0.0


Series = tuple[float, ...]


def series(events: Iterable[dict[str, Any]]) -> tuple[Series, Series]:
    """Return losses and gradient norms by step, up to the first that is not finite."""
    steps = [(event["loss"], event["grad_norm"]) for event in events if "step" in event]
    finite = list(
        itertools.takewhile(lambda pair: all(map(math.isfinite, pair)), steps)
    )
    return tuple(loss for loss, _ in finite), tuple(norm for _, norm in finite)


def _base_record(
    knobs: dict[str, Any],
    spec: Spec,
    result: WorkerResult,
    done: dict[str, Any] | None,
    last_line: str,
) -> Record:
    base = Record(knobs, "launch", cost_s=result.seconds)
    failed = _event(result, "failed")
    try:
        if done is not None:
            return _measured(base, spec, result, done)
        if failed is not None:
            return _failed(base, result, failed)
    except (BadRecord, KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"the worker's report cannot be read: {type(error).__name__} {error}"
        return base._replace(message=message[:500])
    outcome, message = unfinished(result, spec.device)
    message += _on_rank(result)
    if result.ended == "exit" and last_line:  # otherwise it was cut off
        message += f"; its last line: {last_line}"
    return base._replace(outcome=outcome, message=message, stage_reached=result.stage)


def _failed(base: Record, result: WorkerResult, failed: dict[str, Any]) -> Record:
    message = f"{failed['error']}: {failed['message']}{_on_rank(result)}"
    base = base._replace(message=message[:500], error=str(failed["error"])[:100])
    base = base._replace(stage_reached=result.stage)
    kind = "launch" if base.never_began else failed["kind"]
    if result.stage == "compile" and kind == "user":
        kind = "compile"
    if kind not in OUTCOMES:
        raise ValueError(kind)
    if kind == "nan":
        losses, norms = series(result.events)
        base = base._replace(losses=losses, grad_norms=norms)
    return base._replace(outcome=kind)


def _on_rank(result: WorkerResult) -> str:
    """Name the rank that failed, if there are several."""
    for event in result.events:
        rank = event.get("died", event.get("rank"))
        if isinstance(rank, int):
            return f" (rank {rank})"
    return ""


def _measured(
    base: Record, spec: Spec, result: WorkerResult, done: dict[str, Any]
) -> Record:
    """Return the record of a trial that finished; raises ``BadRecord`` and others."""
    built: dict[str, Any] = _event(result, "float8_linears", whole=True) or {}
    about: dict[str, Any] = _event(result, "torch", whole=True) or {}
    losses, norms = series(result.events)
    found = from_data(
        {
            **base.data(),
            "outcome": "ok",
            "tokens_per_second": done["tokens_per_second_per_rank"],
            "step_ms": done["step_ms"],
            "peak_gib": done["peak_gib"],
            "reserved_gib": done["reserved_gib"],
            "losses": losses,
            "grad_norms": norms,
            "all_step_ms": [e["step_ms"] for e in result.events if "step" in e],
            "environment": _environment(result),
            "versions": {name: about[name] for name in VERSIONS if name in about},
            "float8_linears": built.get("float8_linears", 0),
            "checkpointed": built.get("checkpointed", 0),
            "grad_accum": spec.grad_accum,
            "rehearsal": spec.device == "cpu",
            "synthetic_data": spec.synthetic_data,
            **{name: done[name] for name in KEPT if name in done},
        }
    )
    why = _missing_float8(spec, found)
    return found._replace(outcome="user", message=why) if why else found


def _missing_float8(spec: Spec, found: Record) -> str:
    """Return why a trial that should be in FP8 was not; ``""`` if it was.

    In every micro-batch, each FP8 linear has one matmul forward and one for each
    gradient; activation checkpointing adds more. The recipe that keeps the weight
    gradient in high precision has one less.
    """
    if spec.precision != "fp8":
        return ""
    ran = found.float8_matmuls
    if not ran:
        return "FP8 was requested, but no FP8 matmul ran"
    each = 2 if spec.fp8_recipe == "rowwise_with_gw_hp" else 3
    least = found.float8_linears * spec.grad_accum * each
    missing = f"only {ran} FP8 matmuls ran in a step, of {least} of its FP8 linears"
    return missing if ran < least else ""


def _environment(result: WorkerResult) -> str:
    about = _event(result, "torch", whole=True) or {}
    return f"{about.get('device', '?')}, torch {about.get('torch', '?')}"


def _event(
    result: WorkerResult, name: str, *, whole: bool = False
) -> dict[str, Any] | None:
    """Return the first event with that field, or only the field's value."""
    for event in result.events:
        if name in event:
            return event if whole else event[name]
    return None
