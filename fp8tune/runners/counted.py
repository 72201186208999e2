"""Correct a finished record: throttled steps, interval of the median, energy."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp8tune.runners.driver import Driver
from fp8tune.runners.gpu import Sample
from fp8tune.runners.steady import LEAST, interval
from fp8tune.runners.watch import is_throttled, summary, with_gpu_state
from fp8tune.trials.record import Discarded, Record

MOST_SLOWED = 0.5
"""Share of throttled steps from which the whole trial counts as throttled."""
METERED_S = 1.0
"""The least time whose energy the driver's counter tells [s]: it is updated every 20 to
100 ms (PETSc manual, PetscLogGpuEnergyMeter), so a second is known within 10 %, and ten
within 1 %."""


def with_samples(
    found: Record,
    driver: Driver,
    events: Sequence[dict[str, Any]],
    before: dict[str, Any],
    *,
    began: float,
    steady: tuple[float, float],
) -> Record:
    """Return a record with what the driver saw, which may change its outcome.

    ``before`` are the fields of ``Guard.free``; ``events`` has the end and the time of
    each step. The trial ``began`` then, and made ``steady`` steps in that stretch [s
    since 1970].
    """
    samples = driver.samples(began, time.time())
    found = without_throttled_steps(found, events, samples)
    seen = summary(driver.samples(*steady)) | power(found, events, samples)
    return with_gpu_state(found, before, seen, driver.gpu.driver)


def without_throttled_steps(
    found: Record, events: Sequence[dict[str, Any]], samples: Sequence[Sample]
) -> Record:
    """Return a record without the steps in which the GPU was throttled.

    Before this call the last steps of ``all_step_ms`` count. ``events`` has the end and
    the time of each step.
    """
    times = [sample.time for sample in samples if is_throttled(sample)]
    steps = _ends(events)
    first = len(found.all_step_ms) - len(found.step_ms)
    counted = range(first, first + len(found.step_ms))
    slowed = [
        number
        for number in counted
        if number in steps and _within(times, *steps[number])
    ]
    if not found.ok or not slowed:
        return found
    found = found._replace(
        discarded=(*found.discarded, *(Discarded(n, n, "throttled") for n in slowed))
    )
    keep = [number not in slowed for number in counted]
    kept = tuple(itertools.compress(found.step_ms, keep))
    many_slowed = len(slowed) > MOST_SLOWED * len(found.step_ms)
    if many_slowed or len(kept) < LEAST:
        why = f"{len(slowed)} of {len(counted)} steps were throttled"
        return found._replace(outcome="throttled", message=why)
    gain = statistics.median(found.step_ms) / statistics.median(kept)
    speed = found.tokens_per_second * gain
    return found._replace(tokens_per_second=speed, step_ms=kept)


def _ends(events: Sequence[dict[str, Any]]) -> dict[int, tuple[float, float]]:
    """Return the end and the duration of each step [s]."""
    return {e["step"]: (e["at"], e["ms"] / 1e3) for e in events if "step" in e}


def _within(times: Sequence[float | None], end: float, seconds: float) -> bool:
    return any(time is not None and end - seconds <= time <= end for time in times)


def power(
    found: Record, events: Sequence[dict[str, Any]], samples: Sequence[Sample]
) -> dict[str, Any]:
    """Return ``power_w``, the mean watts of the counted steps; nothing if unknown.

    It comes from the driver's energy counter.
    """
    stretches = _stretches(found, _ends(events))
    metered = [_metered(samples, start, end) for start, end in stretches]
    seconds = sum(took for took, _ in metered)
    if seconds < METERED_S:
        return {}
    watts = sum(joules for _, joules in metered) / seconds
    return {"power_w": round(watts, 1)}


def _metered(
    samples: Sequence[Sample], start: float, end: float
) -> tuple[float, float]:
    """Return the seconds between a stretch's first and last sample, and its joules.

    Zeros if the counter is missing or was reset, as by a reload of the driver.
    """
    read = [
        (sample.time, sample.energy_j)
        for sample in samples
        if sample.time is not None and sample.energy_j is not None
        if start <= sample.time <= end
    ]
    if not read or read[-1][1] < read[0][1]:
        return 0.0, 0.0
    return read[-1][0] - read[0][0], read[-1][1] - read[0][1]


def _stretches(
    found: Record, ends: Mapping[int, tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """Yield begin and end of each stretch of counted steps [s since 1970]."""
    out = {
        number
        for left in found.discarded
        for number in range(left.first, left.last + 1)
    }
    every = range(len(found.all_step_ms))
    counted = [number for number in every if number in ends and number not in out]
    # consecutive numbers keep the same distance from their place in the list
    for _, own in itertools.groupby(enumerate(counted), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in own]
        end, took = ends[numbers[0]]
        yield end - took, ends[numbers[-1]][0]


def with_interval_and_energy(found: Record, ranks: int) -> Record:
    """Return a record with the interval of its median step, and with its energy.

    ``joules_per_step`` is one GPU's mean over the counted steps. ``tokens_per_joule``
    is that GPU's share of the tokens over the joules, slow steps included. Both exist
    only if watts are known.
    """
    if not found.ok:
        return found
    if len(found.step_ms) > 1:
        found = found._replace(median_step_ms_95=interval(found.step_ms))
    if not found.power_w:
        return found
    added = found.communication_ms
    joules = found.power_w * (statistics.fmean(found.step_ms) + added) / 1e3
    seconds = (statistics.median(found.step_ms) + added) / 1e3
    tokens = found.tokens_per_second / max(1, ranks) * seconds
    return found._replace(
        tokens_per_joule=round(tokens / joules, 6),
        extra={**found.extra, "joules_per_step": round(joules, 3)},
    )
