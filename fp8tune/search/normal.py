"""The normal distribution, for arrays."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


def below(z: Array) -> Array:
    """The standard normal distribution function, within 1.5e-7.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    x = np.abs(z) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * x)
    series = t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))
    tail = t * (0.254829592 + t * (-0.284496736 + series)) * np.exp(-x * x) / 2
    return np.asarray(np.where(z > 0, 1 - tail, tail))


def density(z: Array) -> Array:
    """The standard normal density."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


def improvement(mean: Array, deviation: Array, best: float) -> Array:
    """By how much normal values are expected to lie above ``best``, where they do."""
    z = (mean - best) / deviation
    return np.asarray(deviation * (z * below(z) + density(z)))
