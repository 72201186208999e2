"""Which steps of a finished trial count, how sure their median is, and its energy."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from fp8tune.runners.smi import Sample
from fp8tune.runners.steady import LEAST, interval
from fp8tune.runners.watch import slows
from fp8tune.search.record import Record

MOST_SLOWED = 0.5
"""Share of the steps with a throttled GPU from which a trial says nothing."""


def without_slowed(
    found: Record, events: Sequence[dict[str, Any]], samples: Sequence[Sample]
) -> Record:
    """A record without the steps in which the GPU throttled.

    Of ``all_step_ms`` the last ones count so far, each ``events`` with a step has its
    end and its time.
    """
    times = [sample.time for sample in samples if slows(sample)]
    steps = {e["step"]: (e["at"], e["ms"] / 1e3) for e in events if "step" in e}
    first = len(found.more.get("all_step_ms", ())) - len(found.step_ms)
    counted = range(first, first + len(found.step_ms))
    slowed = [
        number
        for number in counted
        if number in steps and _within(times, *steps[number])
    ]
    if not found.ok or not slowed:
        return found
    left = [{"first": n, "last": n, "why": "throttled"} for n in slowed]
    more = {**found.more, "discarded": [*found.more.get("discarded", ()), *left]}
    pairs = zip(counted, found.step_ms, strict=True)
    kept = tuple(took for number, took in pairs if number not in slowed)
    if len(slowed) > MOST_SLOWED * len(found.step_ms) or len(kept) < LEAST:
        more["message"] = f"{len(slowed)} of {len(counted)} steps were throttled"
        return found._replace(outcome="throttled", more=more)
    gain = statistics.median(found.step_ms) / statistics.median(kept)
    speed = found.tokens_per_second * gain
    return found._replace(tokens_per_second=speed, step_ms=kept, more=more)


def _within(times: Sequence[float | None], end: float, seconds: float) -> bool:
    return any(time is not None and end - seconds <= time <= end for time in times)


def summed_up(found: Record, ranks: int) -> Record:
    """A record with the interval of its median step, and with its energy.

    ``joules_per_step`` is one GPU's, ``tokens_per_joule`` that GPU's share of the
    tokens; both only where watts were sampled.
    """
    if not found.ok:
        return found
    more = dict(found.more)
    if len(found.step_ms) > 1:
        more["median_step_ms"] = statistics.median(found.step_ms)
        more["median_step_ms_95"] = list(interval(found.step_ms))
    watts = more.get("power_w")
    if isinstance(watts, (int, float)) and watts > 0 and found.measured:
        step_ms = statistics.median(found.step_ms) + (more.get("communication_ms") or 0)
        more["joules_per_step"] = round(watts * step_ms / 1e3, 3)
        each = found.tokens_per_second / max(1, ranks)
        more["tokens_per_joule"] = round(each / watts, 6)
    return found._replace(more=more)
