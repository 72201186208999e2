"""One GPU standing for many, or for a larger one: what is added to what was measured.

A trial of many ranks is rank 0's true share of memory and compute with collectives that
move nothing. The time that they would take comes from published bandwidths. Where the
model does not fit this GPU but may fit the one it is for, two shallower ones are
measured: blocks are alike, so memory and time are lines over depth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from fp8tune.job import Job, Unknown
from fp8tune.search.record import Record

MEDIAN = math.sqrt(math.pi / 2)
"""Deviation of a median over that of a mean, of many normal values."""


def communication_ms(job: Job) -> float | None:
    """Time that collectives add to an optimizer step [ms]; ``None`` where unknown.

    By ``speed.bf16_seconds`` and ``speed.fp8_seconds``: NVLink in nodes of
    ``speed.node`` GPUs and 400 Gb/s per GPU between them. FP8 without compile, of which
    no run is published, has that of bf16: it sends no more. So either all settings of
    a config have a time or none.
    """
    names = ("speed.fp8_seconds",) * (job["precision"] == "fp8")
    for name in (*names, "speed.bf16_seconds"):
        try:
            return float(job[name].communication * job["grad_accum"] * 1e3)
        except Unknown:
            continue
    return None


def depths(layers: int, period: int) -> list[tuple[int, int]]:
    """Pairs of depths to measure instead of a whole model, the largest first.

    Each is a multiple of ``period``, after which the blocks repeat.
    """
    found = []
    deep = layers // 2 // period * period
    while deep >= 2 * period:
        shallow = deep // 2 // period * period
        found.append((shallow, deep))
        deep = shallow
    return found


def extrapolated(pair: Sequence[tuple[int, Record]], layers: int) -> Record:
    """The record of a model of ``layers`` blocks from those of two shallower ones.

    Step times and memory lie on a line through both. ``extrapolation_error`` is half of
    the 95 % interval of the step time, relative, from the spread of the steps alone.
    """
    (low, shallow), (high, deep) = pair
    reach = (layers - low) / (high - low)

    def line(one: float, other: float) -> float:
        return one + reach * (other - one)

    middles = [statistics.median(record.step_ms) for record in (shallow, deep)]
    step_ms = line(*middles)
    tokens = deep.tokens_per_second * middles[1]
    errors = [_error_ms(record.step_ms) for record in (shallow, deep)]
    error = math.hypot((1 - reach) * errors[0], reach * errors[1]) / step_ms
    said = f"from {low} and {high} of {layers} blocks, which fit this GPU"
    return deep._replace(
        tokens_per_second=tokens / step_ms,
        step_ms=(step_ms,),
        peak_gib=line(shallow.peak_gib, deep.peak_gib),
        reserved_gib=line(shallow.reserved_gib, deep.reserved_gib),
        cost_s=shallow.cost_s + deep.cost_s,
        more={
            **deep.more,
            "extrapolated": said,
            "extrapolation_error": error,
        },
    )


def as_many(record: Record, job: Job, ranks: int) -> Record:
    """The record of one rank as that of all, with the time of their collectives.

    ``extrapolation_error`` is relative, of tokens/s; ``None`` without communication.
    ``communication_error`` is that of the time of the collectives alone.
    """
    if ranks < 2 or not record.ok:
        return record
    step_ms = statistics.median(record.step_ms)
    added = communication_ms(job)
    wrong = _communication_error(job, step_ms, added)
    share = (added or 0.0) / (step_ms + (added or 0.0))
    error = _combined(record.more, None if wrong is None else wrong * share)
    how = "without communication: no bandwidth is known for this job"
    if added is not None:
        how = f"plus {added:.1f} ms of communication a step by published bandwidths"
    alone = record.more.get("extrapolated")
    said = f"rank 0 of {ranks}, {how}"
    return record._replace(
        tokens_per_second=record.tokens_per_second
        * ranks
        * step_ms
        / (step_ms + (added or 0.0)),
        more={
            **record.more,
            "extrapolated": f"{said}; {alone}" if alone else said,
            "communication_ms": added,
            "communication_error": wrong,
            "extrapolation_error": error,
        },
    )


def _communication_error(job: Job, step_ms: float, added: float | None) -> float | None:
    """Relative error of the time of the collectives.

    It is wrong by itself at most, and moves tokens/s by no more than predicted speeds
    are wrong.
    """
    try:
        predicted: float = job["speed.tokens_error"]
    except Unknown:
        return None
    if added is None:
        return None
    return min(1.0, predicted * (step_ms + added) / added) if added else 1.0


def _combined(more: dict[str, Any], error: float | None) -> float | None:
    """Both errors of one figure: that of its depth and that of its collectives."""
    if error is None:
        return None
    return math.hypot(error, more.get("extrapolation_error", 0.0))


def _error_ms(times: Sequence[float]) -> float:
    """Half of the 95 % interval of the median of step times [ms]."""
    if len(times) < 2:
        return 0.0
    return 1.96 * MEDIAN * statistics.stdev(times) / math.sqrt(len(times))
