"""Measured peaks that correct the estimates of configs like them.

Within one trainer, AC and compile mode the error of the closed form is nearly the same
factor for all configs, so one run corrects the others (``benchmarks/estimates_memory``
leaves each published run out in turn and says by how much).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

VERSION = 1

ONE_POINT = 0.03
"""Half-width of the band after one measured run."""

TWO_POINTS = 0.02
"""Smallest half-width after two runs or more."""


class Measured(NamedTuple):
    """A run: its family, and the peak as predicted and as measured [GiB]."""

    family: str
    predicted_gib: float
    measured_gib: float


class Calibration(NamedTuple):
    """Measured runs of one environment; runs of another one do not count."""

    gpu: str
    versions: dict[str, str]
    runs: tuple[Measured, ...]


class Corrected(NamedTuple):
    """An estimate after calibration [GiB]."""

    peak_gib: float
    low_gib: float
    high_gib: float


class BadCalibration(Exception):
    """The text is no calibration of this version; ``args[0]`` says why."""


def corrected(
    family: str,
    peak_gib: float,
    low_gib: float,
    high_gib: float,
    runs: Sequence[Measured],
) -> Corrected:
    """The estimate of a config, corrected by the runs of its family.

    The median of measured / predicted scales it. The band becomes the larger of what
    one or two runs leave and how far the runs disagree, never wider than it was.
    """
    same = (run for run in runs if run.family == family)
    mine = [run.measured_gib / run.predicted_gib for run in same]
    if not mine:
        return Corrected(peak_gib, low_gib, high_gib)
    factor = _median(mine)
    spread = max(max(mine) / factor, factor / min(mine)) - 1
    width = max(ONE_POINT if len(mine) == 1 else TWO_POINTS, spread)
    below = min(width, 1 - low_gib / peak_gib)
    above = min(width, high_gib / peak_gib - 1)
    peak = peak_gib * factor
    return Corrected(peak, peak * (1 - below), peak * (1 + above))


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2


def written(calibration: Calibration) -> str:
    """A calibration as JSON."""
    return json.dumps(
        {
            "version": VERSION,
            "gpu": calibration.gpu,
            "versions": calibration.versions,
            "runs": [run._asdict() for run in calibration.runs],
        },
        indent=2,
    )


def read(text: str) -> Calibration:
    """The calibration in a JSON text; raises ``BadCalibration``."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise BadCalibration(f"version {data['version']}, not {VERSION}")
        runs = tuple(_run(entry) for entry in data["runs"])
        versions = {str(name): str(value) for name, value in data["versions"].items()}
        return Calibration(str(data["gpu"]), versions, runs)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadCalibration(f"not a calibration: {error}") from None


def _run(entry: dict[str, Any]) -> Measured:
    predicted, measured = entry["predicted_gib"], entry["measured_gib"]
    for value in (predicted, measured):
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ValueError(f"{value!r} is no memory in GiB")
    return Measured(str(entry["family"]), float(predicted), float(measured))
