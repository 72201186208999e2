"""Turn what a trainer printed, and how it ended, into the trial's record."""

from __future__ import annotations

import math
import statistics
from typing import Any

from fp8tune.job import Job, Unknown
from fp8tune.runners.process import Ended, WorkerResult, unfinished
from fp8tune.runners.trainer.output import Output
from fp8tune.runners.trainer.recipe import INSIDE
from fp8tune.trials.record import OUTCOMES, Record
from fp8tune.verify import patterns
from fp8tune.verify.causes import diagnose
from fp8tune.verify.diagnosis import Diagnosis
from fp8tune.verify.evidence import Log

LONGEST = 500
"""Characters of a message."""
FEW_LINES = 3
"""Lines that look like steps and cannot be read, from which the pattern is wrong."""
LEAST_MS, CLOSE = 50.0, 0.75
"""From how many ms between lines on a step must not be printed as longer, and how much
shorter these may be: lines that a buffer held come at once."""


def base_record(
    knobs: dict[str, Any], output: Output, ended: Ended, job: Job
) -> Record:
    """Return the record of a trial, without its proof of FP8.

    A trial is ``ok`` if its listener had enough. One that ended by itself before is
    not, whatever its exit code: trainers exit with 0 after ten NaNs.
    """
    base = Record(
        knobs,
        "launch",
        cost_s=ended.seconds,
        stage_reached=output.stage,
        losses=_series(output.curve.loss),
        grad_norms=_series(output.curve.grad_norm),
        grad_accum=job.find("grad_accum") or 0,
        synthetic_data=False,
    )
    if output.is_nan:
        found = next(iter(_causes(output.close(), "nan")), None)
        message = found.message if found else "the loss is NaN or infinite"
        return base._replace(outcome="nan", message=message[:LONGEST])
    if ended.ended != "enough":
        return _failed(base, output, ended)
    started = output.log.settings["world_size"]
    if output.wanted.trainer == INSIDE and started != str(output.wanted.ranks):
        message = f"{started} of {output.wanted.ranks} processes started"
        return base._replace(outcome="user", message=message, losses=(), grad_norms=())
    measured = _losses if output.wanted.losses else _speed
    return measured(base, output)


def _speed(base: Record, output: Output) -> Record:
    """Return the record of a trial with enough steps."""
    times, steps = output.steps()
    found = steps.steady()
    kept = steps.whole_ms[min(found.start, len(steps.whole_ms) - 1) :]
    recompiles = output.log.events.get("recompile")
    middle, between = statistics.median(times.ms), times.between_ms
    extra = {"settled": found.settled, "time_from": times.source}
    if times.source != "lines":
        extra["between_lines_ms"] = round(between, 3)
    told = output.wanted.trainer != INSIDE  # whose lines come once a GPU got there
    if told and between > LEAST_MS and between < CLOSE * middle:
        message = (
            f"it prints {middle:.0f} ms a step ({times.source}), and its lines are "
            f"{between:.0f} ms apart: are its tokens/s those of all GPUs, and does its "
            "description count every token of a step?"
        )
        return base._replace(outcome="user", message=message, extra=extra)
    return _with_memory(
        base._replace(
            outcome="ok",
            tokens_per_second=output.wanted.tokens / statistics.median(kept) * 1e3,
            step_ms=tuple(kept),
            all_step_ms=tuple(steps.whole_ms),
            discarded=found.left,
            micro_batches=base.grad_accum,
            recompiles=recompiles.count if recompiles else 0,
            losses=(),
            grad_norms=(),
            stage_reached="",
            extra=extra,
        ),
        output,
    )


def _losses(base: Record, output: Output) -> Record:
    """Return the record of a loss run."""
    count = output.wanted.losses
    ms = [t for t in output.times().ms if t > 0]
    middle = statistics.median(ms[1:] or ms) if ms else math.inf
    return _with_memory(
        base._replace(
            outcome="ok",
            tokens_per_second=output.wanted.tokens / middle * 1e3,
            step_ms=tuple(ms[1:] or ms),
            losses=base.losses[:count],
            grad_norms=base.grad_norms[:count],
            stage_reached="",
        ),
        output,
    )


def _with_memory(record: Record, output: Output) -> Record:
    """Add the peak memory that the trainer prints, allocated or reserved."""
    peaks = [value for value in output.curve.peak_gib if math.isfinite(value)]
    known = patterns.known()[output.wanted.trainer]
    peak = max(peaks, default=0.0)
    if known.peak == "reserved":
        return record._replace(peak_gib=peak, reserved_gib=peak)
    return record._replace(peak_gib=peak)


def _failed(base: Record, output: Output, ended: Ended) -> Record:
    """Return the record of a trial that ended too early, with its cause."""
    log = output.close()
    base = base._replace(losses=(), grad_norms=())
    late = ended.ended == "late"
    result = WorkerResult([], ended.ended, output.stage, ended.code, ended.seconds)
    outcome, message = unfinished(result, "cuda")
    message = message.replace("the worker", "the trainer")
    if ended.ended == "unreadable":
        return base._replace(message="what the trainer prints is no text")
    causes = list(_causes(log, *_FAILURES))
    if not causes and len(output.unread_steps) >= FEW_LINES:
        return base._replace(outcome="user", message=_unread(output)[:LONGEST])
    if causes:
        outcome = causes[0].cause.outcome
        message = causes[0].message
        base = base._replace(error=causes[0].code)
    elif not late and len(output.curve):
        outcome = "user" if ended.code == 0 else outcome
        message = f"the trainer ended after step {output.curve.step[-1]:.0f}, {message}"
    if not causes and output.last_line and not (late and len(output.curve)):
        message += "; no line of a step was read" * late
        message += f"; its last line: {output.last_line}"
    if late and causes:
        message = f"stopped at its deadline: {message}"
    if base.never_began and outcome not in ("launch", "hang"):
        base = base._replace(stage_reached="build")
    assert outcome in OUTCOMES
    return base._replace(outcome=outcome, message=message[:LONGEST])


def _unread(output: Output) -> str:
    """Return which line looks like a step and cannot be read."""
    known = patterns.known()[output.wanted.trainer]
    line = next(line for line in known.lines if line.kind == "step")
    triggers = " or ".join(repr(each.decode()) for each in line.triggers)
    return (
        f"no step was read: lines have {triggers}, but do not match the pattern of "
        f"`{line.name}`; the last: {output.unread_steps[-1]}"
    )


_FAILURES = tuple(OUTCOMES)


def _causes(log: Log, *outcomes: str) -> list[Diagnosis]:
    """Return the causes that ended a run, the root first."""
    return [
        found
        for found in diagnose([log], [])
        if found.cause.outcome in outcomes
        and found.cause.severity != "note"
        and not found.survived
    ]


def _series(values: Any) -> tuple[float, ...]:
    """Return the numbers up to the first that is not finite."""
    found = []
    for value in values:
        if not math.isfinite(value):
            break
        found.append(float(value))
    return tuple(found)


def tokens_of(job: Job) -> float:
    """Return the tokens of a step over all ranks; raises ``Unknown``."""
    tokens = float(job["step.tokens"])
    if not tokens > 0:
        raise Unknown("step.tokens")
    return tokens
