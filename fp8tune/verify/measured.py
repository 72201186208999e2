"""What a run measured: for calibration, and whether it is the config's run."""

from __future__ import annotations

import math
import shlex
import statistics
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fp8tune.job import Unknown
from fp8tune.verify import patterns
from fp8tune.verify.evidence import Curve, Log
from fp8tune.verify.verdict import Reason

if TYPE_CHECKING:
    from fp8tune.config.reader import Config

WARM_UP = 10
"""Steps at the start that are left out: they compile, and the allocator grows."""

FEWEST = 5
"""Logged steps after the warm-up that a speed needs."""

COMPARED = ("micro_batch", "seq_len", "grad_accum", "world_size")
"""Settings that a log prints, which are fields of the job."""


def calibration(logs: Sequence[Log], config: Config | None) -> str:
    """Return the command that tells ``estimate`` what the run measured, or ``""``."""
    if config is None or other_settings(logs, config):
        return ""
    curves = [(log, curve) for log in logs for curve in log.starts]
    if not curves:
        return ""
    log, curve = max(curves, key=lambda one: len(one[1]))
    measured = []
    peak = _largest(curve.peak_gib)
    if peak and _allocated(log.trainer):
        measured.append(f"--measured {peak:g}")
    speed = _speed(log, curve)
    if speed is not None:
        measured.append(f"--measured-speed {speed:.0f}")
    if not measured:
        return ""
    return f"fp8tune estimate {shlex.quote(config.path)} {' '.join(measured)}"


def _allocated(trainer: str) -> bool:
    """Whether a trainer logs the memory that is allocated, not what is reserved."""
    known = patterns.known().get(trainer)
    return known is not None and known.peak == "allocated"


def _largest(values: array[float]) -> float | None:
    return max(filter(math.isfinite, values), default=None)


def _speed(log: Log, curve: Curve) -> float | None:
    """Median tokens/s over all GPUs after the warm-up, None if the log has too few."""
    if log.per_gpu:
        return None
    speeds = [
        speed
        for step, speed in zip(curve.step, curve.tokens_per_second, strict=True)
        if step > curve.step[0] + WARM_UP and math.isfinite(speed)
    ]
    return statistics.median(speeds) if len(speeds) >= FEWEST else None


def other_settings(logs: Sequence[Log], config: Config) -> list[Reason]:
    """Where a log prints other settings than the config has."""
    found = []
    for log in logs:
        for field in COMPARED:
            printed = log.settings.get(field)
            try:
                own = config.job[field]
            except (Unknown, KeyError):
                continue
            if printed is None or not printed.isdecimal() or int(printed) == own:
                continue
            key = config.job.key(field) or field
            text = f"the log has {key} = {printed}, {config.path} {own}"
            text += ": is this the config of the run?"
            found.append(Reason("other-settings", text, log.path))
    return found
