"""What came of a run that was made for its losses."""

from __future__ import annotations

from typing import NamedTuple

from fp8tune.trials.loss_run import LossRun
from fp8tune.trials.record import Record


class Curve(NamedTuple):
    """A run that was trained: its losses and gradient norms, step by step.

    ``nan`` says that it ended in NaN or infinity; the series stop before.
    """

    precision: str
    how: LossRun
    losses: tuple[float, ...]
    norms: tuple[float, ...]
    nan: bool = False


def curve(record: Record, precision: str) -> Curve | None:
    """What came of a record's run; ``None`` where it has no whole series.

    A throttled GPU is slow and computes the same.
    """
    how = record.loss_run
    if how is None or record.outcome not in ("ok", "throttled", "nan"):
        return None
    nan = record.outcome == "nan"
    short = min(len(record.losses), len(record.grad_norms)) < how.steps
    if short and not nan:
        return None
    return Curve(precision, how, record.losses, record.grad_norms, nan)
