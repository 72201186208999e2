"""Small nonlinear least squares: Levenberg-Marquardt with numeric derivatives."""

from __future__ import annotations

from collections.abc import Callable

Vector = list[float]


def minimise(residuals: Callable[[Vector], Vector], start: Vector) -> Vector:
    """Where the sum of squared residuals is smallest, near ``start``."""
    point, values = list(start), residuals(start)
    damping = 1e-3
    for _ in range(60):
        columns = _derivatives(residuals, point, values)
        step = _step(columns, values, damping)
        trial = [a + b for a, b in zip(point, step, strict=True)]
        found = residuals(trial)
        if _square(found) < _square(values):
            gain = 1 - _square(found) / _square(values)
            point, values, damping = trial, found, damping / 4
            if gain < 1e-9:
                break
        else:
            damping *= 8
            if damping > 1e9:
                break
    return point


def _derivatives(
    residuals: Callable[[Vector], Vector], point: Vector, values: Vector
) -> list[Vector]:
    columns = []
    for index, value in enumerate(point):
        width = 1e-5 * max(1.0, abs(value))
        moved = [*point[:index], value + width, *point[index + 1 :]]
        pairs = zip(residuals(moved), values, strict=True)
        columns.append([(new - old) / width for new, old in pairs])
    return columns


def _step(columns: list[Vector], values: Vector, damping: float) -> Vector:
    """Solve the damped normal equations."""
    matrix = [[_dot(a, b) for b in columns] for a in columns]
    for index, row in enumerate(matrix):
        row[index] *= 1 + damping
        row[index] += 1e-12
    return _solve(matrix, [-_dot(column, values) for column in columns])


def _solve(matrix: list[Vector], right: Vector) -> Vector:
    """Gauss elimination of a positive definite system."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for pivot in range(size):
        for row in rows[pivot + 1 :]:
            factor = row[pivot] / rows[pivot][pivot]
            for column in range(pivot, size + 1):
                row[column] -= factor * rows[pivot][column]
    found = [0.0] * size
    for pivot in reversed(range(size)):
        rest = _dot(rows[pivot][pivot + 1 : size], found[pivot + 1 :])
        found[pivot] = (rows[pivot][size] - rest) / rows[pivot][pivot]
    return found


def _dot(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _square(values: Vector) -> float:
    return _dot(values, values)
