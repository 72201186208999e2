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
