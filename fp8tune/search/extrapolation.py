"""What is said of a figure that was not measured as such: that of many GPUs by one."""

from __future__ import annotations

from typing import Any

from fp8tune.trials.record import Record


def extrapolation(record: Record | None) -> dict[str, Any] | None:
    """How a record's figures were extrapolated, and their relative error if known.

    ``None`` where they were measured as they are.
    """
    if record is None or not record.extrapolated:
        return None
    return {"how": record.extrapolated, "error": record.extrapolation_error}


def band(record: Record) -> str:
    """The mark of an extrapolated figure, with its band; ``""`` for a measured one."""
    found = extrapolation(record)
    if found is None:
        return ""
    error = found["error"]
    within = "error unknown" if error is None else f"+-{100 * error:.1f} %"
    return f" (extrapolated, {within})"


def sentence(record: Record | None) -> str:
    """How a record's figures came about; ``""`` where they were measured."""
    found = extrapolation(record)
    if record is None or found is None:
        return ""
    error = found["error"]
    within = "error unknown" if error is None else f"+-{100 * error:.1f} % tokens/s"
    return f"extrapolated ({within}): {found['how']}"
