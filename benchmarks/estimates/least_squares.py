"""Small nonlinear least squares: Levenberg-Marquardt with numeric derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Vector = list[float]


def minimise(residuals: Callable[[Vector], Vector], start: Vector) -> Vector:
    """Return where the sum of squared residuals is smallest, near ``start``."""
    point, values = np.array(start), np.array(residuals(start))
    damping = 1e-3
    for _ in range(60):
        widths = 1e-5 * np.maximum(1.0, np.abs(point))
        moved = [residuals(list(row)) for row in point + np.diag(widths)]
        slopes = (np.array(moved) - values) / widths[:, None]
        matrix = slopes @ slopes.T
        matrix += np.diag(damping * np.diag(matrix) + 1e-12)
        trial = point - np.linalg.solve(matrix, slopes @ values)
        found = np.array(residuals(list(trial)))
        gain = 1 - (found @ found) / (values @ values)
        if gain > 0:
            point, values, damping = trial, found, damping / 4
            if gain < 1e-9:
                break
        else:
            damping *= 8
            if damping > 1e9:
                break
    return list(map(float, point))
