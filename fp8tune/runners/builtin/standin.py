"""Extrapolate a trial to many GPUs, or to a larger GPU than this machine's.

A trial of many ranks measures rank 0's real share of memory and compute; its
collectives move nothing. Their time is predicted from published bandwidths. If the
model does not fit this GPU but may fit the one that the run is for, two shallower
models are measured. Blocks are alike, so time is linear in depth. Memory is linear too
while its peak stays at the same instant of a step; the facts ``memory.*`` say where it
moves.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from fp8tune.facts.steptime import seconds_on
from fp8tune.job import Job, Unknown
from fp8tune.trials.record import Record

MEDIAN = math.sqrt(math.pi / 2)
"""Deviation of a median over that of a mean, of many normal values."""

SLOWER = math.exp(2 * 0.3)
"""How many times as slow or as fast as fitted the collectives may be: two deviations of
their rates, as the fit holds them (``HOLD`` in benchmarks/estimates/fit.py). Without
one of its sources the fitted network is 16 % slower."""


def communication_ms(job: Job) -> float | None:
    """Return the time that collectives add to a step [ms]; ``None`` if unknown.

    It is computed by ``speed.bf16_seconds`` and ``speed.fp8_seconds``: NVLink in nodes
    of ``speed.node`` GPUs and 400 Gb/s per GPU between them. FP8 without compile, of
    which no run is published, takes the time of bf16, because it sends no more. So
    either all settings of a config have a time or none has.
    """
    names = ("speed.fp8_seconds",) * (job["precision"] == "fp8")
    for name in (*names, "speed.bf16_seconds"):
        try:
            return float(job[name].communication * job["grad_accum"] * 1e3)
        except Unknown:
            continue
    return None


def communication_ends_ms(job: Job) -> list[float]:
    """Return that time for slower and faster collectives; [] if unknown.

    The order is the same for all settings. FP8 weights are gathered in FP8 and in bf16,
    because one report measured no saving from FP8 all-gather
    (``speed.fp8_gather_gain``).
    """
    compiled = job["precision"] == "fp8" and job["compile"]
    recipe = "tensorwise" if compiled else ""
    try:
        parts = [
            seconds_on(
                job["gpu"], job["speed.step"], recipe, gather=gather, slower=slower
            )
            for slower in (SLOWER, 1.0, 1 / SLOWER)
            for gather in (True, False)
        ]
    except Unknown:
        return []
    return [float(part.communication * job["grad_accum"] * 1e3) for part in parts]


def depths(layers: int, period: int) -> list[tuple[int, int]]:
    """Return pairs of depths to measure in place of a whole model, largest first.

    Each is a multiple of ``period``, the distance after which blocks repeat.
    """
    found = []
    deep = layers // 2 // period * period
    while deep >= 2 * period:
        shallow = deep // 2 // period * period
        found.append((shallow, deep))
        deep = shallow
    return found


def extrapolated(pair: Sequence[tuple[int, Record]], layers: int, job: Job) -> Record:
    """Return a job's record, extrapolated from those of two shallower models.

    Step time is linear in depth. Memory is the larger of a linear extrapolation and
    ``peak_by_shape``. ``extrapolation_error`` is half the relative 95 % interval of the
    step time, from the spread of the steps alone.
    """
    (low, shallow), (high, deep) = pair
    reach = (layers - low) / (high - low)

    def line(one: float, other: float) -> float:
        return one + reach * (other - one)

    peak_gib = line(shallow.peak_gib, deep.peak_gib)
    peaks = [(count, record.peak_gib) for count, record in pair]
    more_gib = max(0.0, peak_by_shape(peaks, layers, job) - peak_gib)
    middles = [statistics.median(record.step_ms) for record in (shallow, deep)]
    step_ms = line(*middles)
    tokens = deep.tokens_per_second * middles[1]
    errors = [_error_ms(record) for record in (shallow, deep)]
    error = math.hypot((1 - reach) * errors[0], reach * errors[1]) / step_ms
    source = f"from {low} and {high} of {layers} blocks, which fit this GPU"
    return deep._replace(
        tokens_per_second=tokens / step_ms,
        step_ms=(step_ms,),
        peak_gib=peak_gib + more_gib,
        reserved_gib=line(shallow.reserved_gib, deep.reserved_gib) + more_gib,
        cost_s=shallow.cost_s + deep.cost_s,
        extrapolated=source,
        extrapolation_error=error,
    )


def peak_by_shape(peaks: Sequence[tuple[int, float]], layers: int, job: Job) -> float:
    """Return the peak memory of a job with ``layers`` blocks by the facts' shape [GiB].

    ``peaks`` are measured at two depths; ``memory.peak_gib`` over depth is shifted and
    scaled to match both. It excludes building the model, which a trial does not
    measure. 0 if it is unknown, or equal at both depths. Errors of both methods:
    benchmarks/results/depths.md.
    """
    steps = job.with_values({"init_bytes": 0})
    (low, one), (high, other) = peaks
    try:
        first, second, whole = (
            float(steps.with_values({"layers": count})["memory.peak_gib"])
            for count in (low, high, layers)
        )
    except Unknown:
        return 0.0
    if second <= first:
        return 0.0
    return other + (whole - second) * (other - one) / (second - first)


def for_all_ranks(record: Record, job: Job, ranks: int) -> Record:
    """Return one rank's record, extrapolated to all ranks with predicted communication.

    ``extrapolation_error`` is relative, of tokens/s; ``None`` without communication.
    """
    if ranks < 2 or not record.ok:
        return record
    step_ms = statistics.median(record.step_ms)
    added = communication_ms(job)
    ends = communication_ends_ms(job)
    left_open = _communication_error(job, step_ms, added, ends)
    error = _combined(record, left_open)
    how = "without communication: no bandwidth is known for this job"
    if added is not None:
        how = f"plus {added:.1f} ms of communication a step by published bandwidths"
    alone = record.extrapolated
    source = f"rank 0 of {ranks}, {how}"
    return record._replace(
        tokens_per_second=record.tokens_per_second
        * ranks
        * step_ms
        / (step_ms + (added or 0.0)),
        extrapolated=f"{source}; {alone}" if alone else source,
        communication_ms=added or 0.0,
        communication_ends_ms=tuple(ends),
        extrapolation_error=error,
    )


def _communication_error(
    job: Job, step_ms: float, added: float | None, ends: Sequence[float]
) -> float | None:
    """Return the relative error of tokens/s due to the time of collectives.

    It is the worst case of the possible times, at most the error of predicted speeds.
    """
    try:
        predicted: float = job["speed.tokens_error"]
    except Unknown:
        return None
    if added is None:
        return None
    off = [abs((step_ms + added) / (step_ms + end) - 1) for end in ends]
    return min(max(off, default=0.0), predicted)


def _combined(record: Record, error: float | None) -> float | None:
    """Combine the errors due to depth and to collectives."""
    if error is None:
        return None
    return math.hypot(error, record.extrapolation_error or 0.0)


def _error_ms(record: Record) -> float:
    """Return half of the 95 % interval of the median step time [ms]."""
    times = record.step_ms
    if len(times) < 2:
        return 0.0
    return 1.96 * MEDIAN * statistics.stdev(times) / math.sqrt(len(times))
