"""Wait for a free GPU before a trial, and read its clocks and temperature meanwhile."""

from __future__ import annotations

import functools
import operator
import statistics
import time
from collections.abc import Sequence
from typing import Any

from fp8tune.runners.driver import Driver
from fp8tune.runners.gpu import (
    CROWDED_GIB,
    HARMFUL,
    Sample,
    able_to_compute,
    named_reasons,
)
from fp8tune.trials.record import Record, from_data, process_names

WAIT_S = 20.0
"""How long to wait for a killed trial's memory [s]."""
SLACK_GIB = 0.5
"""Memory that may be in use beyond what was when no trial ran."""
BUSY = 0.25
"""Share of the time in which something computes, from which it slows a trial."""
LOOKS = 4
"""Samples to take until a GPU is idle: it may still show the use of the last trial."""
SLOWED_SHARE = 0.1
"""Share of the steady time from which a harmful slowdown makes a trial throttled."""


class Guard:
    """Waits until no other process uses the GPU, or reports those that do."""

    def __init__(self, driver: Driver, wait: float = WAIT_S) -> None:
        self.driver = driver
        self._wait = wait
        self._idle_gib = driver.look().used_gib

    def free(
        self, limit: float, before: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Wait for memory of ended trials to be freed; return fields of the record.

        It is called while no trial runs: before one, and after it with the fields from
        ``before``. It waits at most ``limit`` [s] once the driver answers.
        """
        until = time.monotonic() + min(self._wait, limit)
        seen = self.driver.look()
        while self._holds_more(seen) and time.monotonic() < until:
            time.sleep(0.5)
            seen = self.driver.look()
        if seen.used_gib is None:
            why = self.driver.unwatched or "the memory in use is not known"
            return {**(before or {}), "unwatched": why}
        self._idle_gib = seen.used_gib  # the rest belongs to another process
        return self._with_others(seen, before or {})

    def _holds_more(self, seen: Sample) -> bool:
        """Whether more memory is in use than when no trial ran."""
        if seen.used_gib is None or self._idle_gib is None:
            return False
        return seen.used_gib > self._idle_gib + SLACK_GIB

    def _with_others(self, seen: Sample, before: dict[str, Any]) -> dict[str, Any]:
        """Return the earlier fields plus other processes on the GPU, and its use."""
        known = {other["pid"]: other for other in before.get("others", [])}
        large = able_to_compute(seen.processes or ())
        known = {process.pid: process._asdict() for process in large} | known
        used = max(seen.used_gib or 0.0, before.get("gpu_used_gib", 0.0))
        busy = max(self._busy(seen), before.get("gpu_busy", 0.0))
        return {
            "gpu_used_gib": round(used, 2),
            **({"others": list(known.values())} if known else {}),
            **({"gpu_busy": round(busy, 2)} if busy > BUSY else {}),
        }

    def _busy(self, seen: Sample) -> float:
        """Return the share of the time in which other processes compute."""
        least = _use_by_others(seen)
        for _ in range(LOOKS - 1):
            if least <= BUSY:
                break
            time.sleep(0.5)
            least = min(least, _use_by_others(self.driver.look()))
        return least


def _use_by_others(seen: Sample) -> float:
    """Return the GPU's use if another process can compute on it, else 0.

    A driver that has just started reports 99 % on an idle GPU.
    """
    large = [p for p in able_to_compute(seen.processes or ()) if p.gib is not None]
    hidden = (seen.used_gib or 0.0) > CROWDED_GIB
    return (seen.busy or 0.0) if large or hidden else 0.0


def is_throttled(sample: Sample) -> bool:
    """Return whether a sample has a harmful reason for reduced clocks."""
    return sample.reasons is not None and bool(sample.reasons & HARMFUL)


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return a record's known fields on the GPU during the steady steps.

    ``slowed`` is the share of the time with a harmful reason for reduced clocks.
    """
    fields: dict[str, Any] = {}
    if clocks := [s.sm_mhz for s in samples if s.sm_mhz is not None]:
        fields["sm_mhz"] = statistics.median(clocks)
    if heat := [s.temperature_c for s in samples if s.temperature_c is not None]:
        fields["temperature_c"] = max(heat)
    if reasons := [s.reasons for s in samples if s.reasons is not None]:
        slowed = sum(map(is_throttled, samples)) / len(reasons)
        every = functools.reduce(operator.or_, reasons)
        fields |= {"slowed": round(slowed, 3), "clock_reasons": named_reasons(every)}
    return fields


def with_gpu_state(
    found: Record, before: dict[str, Any], steady: dict[str, Any], driver: str = ""
) -> Record:
    """Return a record with the state of the GPU, which may change its outcome.

    Memory that another process held, a GPU that others computed on, and lowered clocks
    do not count against the setting: another trial may not meet them.
    """
    found = from_data({**found.data(), **before, **steady})
    if driver and found.versions:
        found = found._replace(versions={**found.versions, "driver": driver})
    others = process_names(found.others)
    used = before.get("gpu_used_gib", 0.0)
    others_hold_memory = used > CROWDED_GIB
    taken = others or f"{used:.1f} GiB of a hidden process"
    if found.outcome == "oom" and others_hold_memory:
        message = f"out of memory with {taken} on the GPU"
        return found._replace(outcome="shared", message=message)
    if found.ok and others_hold_memory and found.alloc_retries:
        message = f"allocator retries with {taken} on the GPU"
        return found._replace(outcome="shared", message=message)
    if found.ok and (busy := before.get("gpu_busy", 0.0)):
        who = others or "a hidden process"
        message = f"{who} computes on the GPU, {100 * busy:.0f} % of the time"
        return found._replace(outcome="shared", message=message)
    if found.ok and steady.get("slowed", 0.0) > SLOWED_SHARE:
        reasons = ", ".join(steady["clock_reasons"])
        message = f"{100 * steady['slowed']:.0f} % of the time: {reasons}"
        return found._replace(outcome="throttled", message=message)
    return found
