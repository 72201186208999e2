"""What the lines of a trial's worker amount to: its record."""

from __future__ import annotations

import contextlib
import signal
from typing import Any

from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.process import Heard
from fp8tune.search.cutoff import BEFORE, IMPORT
from fp8tune.search.record import OUTCOMES, BadRecord, Record, parse
from fp8tune.search.stability.course import series

MICRO_BATCHES = "micro_batch_ms"
"""The field of a record with the times of the micro-batches of each counted step [ms],
where these are the samples of its step time."""

EARLIER = "float8_matmuls_counted_earlier"
"""The field of a record whose FP8 matmuls another trial of the setting counted."""

KEPT = (
    EARLIER,
    "censored",
    "capacity_gib",
    "alloc_retries",
    "recompiles",
    "float8_matmuls",
    "discarded",
    "settled",
)
"""What the worker says at its end that goes into the record as it is."""

VERSIONS = ("torch", "torchao", "cuda", "allocator")
"""What the worker says of its software and of the allocator's environment."""

_LATE = {
    "start": "launch",
    "import": "launch",
    "gpu": "launch",
    "build": "launch",
    "convert": "launch",
    "compile": "compile",
}

_BROKEN = {"flood": "said too much", "mute": "closed its output"}


def record(
    knobs: dict[str, Any], spec: Spec, heard: Heard, said: str, matmuls: int = 0
) -> Record:
    """What a worker's lines amount to; ``said`` is its last word on stderr.

    ``matmuls`` is the count of FP8 matmuls if that alone is not told, else 0.
    """
    done = _event(heard, "done")
    measured = _event(heard, "measured")
    if matmuls and measured and heard.ended == "late":
        done = {**measured, "float8_matmuls": matmuls, EARLIER: True}
    found = _told(knobs, spec, heard, done, said)
    start, end = span(heard, "import", "build")
    if end <= start:
        return found
    return found._replace(more={**found.more, IMPORT: round(end - start, 3)})


def span(heard: Heard, first: str, last: str) -> tuple[float, float]:
    """When two stages began [s since 1970]; zeros where one did not."""
    at = {str(event.get("stage")): event.get("at") for event in heard.events}
    start, end = at.get(first), at.get(last)
    if isinstance(start, float) and isinstance(end, float):
        return start, end
    return 0.0, 0.0


def _told(
    knobs: dict[str, Any],
    spec: Spec,
    heard: Heard,
    done: dict[str, Any] | None,
    said: str,
) -> Record:
    base = Record(knobs, "launch", cost_s=heard.seconds)
    failed = _event(heard, "failed")
    try:
        if done is not None:
            measured = _measured(base, spec, heard, done)
            parse(measured.line())  # as a study does later
            return measured
        if failed is not None:
            return _failed(base, heard, failed)
    except (BadRecord, KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"the worker's report cannot be read: {type(error).__name__} {error}"
        return base._replace(more={"message": message[:500]})
    outcome, message = _unfinished(heard, spec.device)
    if heard.ended == "exit" and said:  # else it was cut off, not ended
        message += f"; it said last: {said}"
    more = {"message": message, "stage_reached": heard.stage}
    return base._replace(outcome=outcome, more=more)


def _failed(base: Record, heard: Heard, failed: dict[str, Any]) -> Record:
    message = f"{failed['error']}: {failed['message']}"
    more: dict[str, Any] = {"message": message[:500], "stage_reached": heard.stage}
    kind = "launch" if heard.stage in BEFORE else failed["kind"]
    if heard.stage == "compile" and kind == "user":
        kind = "compile"
    if kind not in OUTCOMES:
        raise ValueError(kind)
    if kind == "nan":
        more |= series(heard.events)
    return base._replace(outcome=kind, more=more)


def _unfinished(heard: Heard, device: str) -> tuple[str, str]:
    """The outcome of a worker that neither finished nor said why."""
    where, code = f"in stage {heard.stage}", heard.code
    if heard.ended == "late":
        return _LATE.get(heard.stage, "hang"), f"given up {where}"
    if heard.ended in _BROKEN:
        return "launch", f"the worker {_BROKEN[heard.ended]} {where}"
    if code == -signal.SIGKILL:
        loaded = heard.stage not in BEFORE
        kind = "oom" if device == "cpu" and loaded else "launch"
        return kind, f"killed {where}, probably by the system for host memory"
    kind = "compile" if heard.stage == "compile" else "launch"
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return kind, f"the worker died of {signal.Signals(-code).name} {where}"
    return kind, f"the worker ended with code {code} {where}"


def _measured(base: Record, spec: Spec, heard: Heard, done: dict[str, Any]) -> Record:
    built: dict[str, Any] = _event(heard, "float8_linears", whole=True) or {}
    about: dict[str, Any] = _event(heard, "torch", whole=True) or {}
    more: dict[str, Any] = {
        **series(heard.events),
        "all_step_ms": [event["ms"] for event in heard.events if "step" in event],
        "environment": _environment(heard),
        "versions": {name: about[name] for name in VERSIONS if name in about},
        "float8_linears": built.get("float8_linears", 0),
        "checkpointed": built.get("checkpointed", 0),
        "grad_accum": spec.grad_accum,
        "rehearsal": spec.device == "cpu",
        **spec.source(),
        **{name: done[name] for name in KEPT if name in done},
    }
    if micro := done.get(MICRO_BATCHES):
        more[MICRO_BATCHES] = _micro_batches(spec, micro, len(done["step_ms"]))
    outcome = "ok"
    if why := _missing_float8(spec, more):
        outcome, more["message"] = "user", why
    return base._replace(
        outcome=outcome,
        tokens_per_second=done["tokens_per_second_per_rank"],
        step_ms=tuple(done["step_ms"]),
        peak_gib=done["peak_gib"],
        reserved_gib=done["reserved_gib"],
        more=more,
    )


def _micro_batches(spec: Spec, micro: Any, steps: int) -> list[list[float]]:
    """Times of the micro-batches of each counted step [ms]; raises ``ValueError``."""
    times = [[float(time) for time in step] for step in micro]
    if [len(step) for step in times] != [spec.grad_accum] * steps:
        raise ValueError(MICRO_BATCHES)
    return times


def _missing_float8(spec: Spec, more: dict[str, Any]) -> str:
    """Why a trial was not in FP8 though that was asked for; ``""`` where it was.

    Each FP8 linear has a matmul forward and one for each gradient, in every
    micro-batch; activation checkpointing adds to them. The recipe that keeps the
    weights' gradient in high precision has one less.
    """
    if spec.precision != "fp8":
        return ""
    ran = more.get("float8_matmuls", 0)
    if not ran:
        return "FP8 was asked for, and no FP8 matmul ran"
    each = 2 if spec.fp8_recipe == "rowwise_with_gw_hp" else 3
    least = more["float8_linears"] * spec.grad_accum * each
    missing = f"only {ran} FP8 matmuls ran in a step, of {least} of its FP8 linears"
    return missing if ran < least else ""


def _environment(heard: Heard) -> str:
    about = _event(heard, "torch", whole=True) or {}
    return f"{about.get('device', '?')}, torch {about.get('torch', '?')}"


def _event(heard: Heard, name: str, *, whole: bool = False) -> dict[str, Any] | None:
    """The event with that field: the field's value, or the event itself."""
    for event in heard.events:
        if name in event:
            return event if whole else event[name]
    return None
