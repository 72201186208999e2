"""Where the curve of a run is disturbed: divergence, spikes and stalls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from fp8tune.verify.evidence import Curve

WARMUP_ROWS = 5
"""First logged steps that do not count as steady: they compile and allocate."""

STEADY_ROWS = 20
"""Steady logged steps that figures of speed need."""

EARLY = 50
"""Steps after a start within which a divergence counts as early."""

SMOOTH = 5
"""Logged steps of which the median is the smoothed loss."""

DEVIATIONS = 6.0
"""Robust standard deviations by which a diverging loss exceeds its minimum."""

NOISE_ROWS = 20
"""First logged steps that the noise of a loss is taken from at least."""

EARLY_DEVIATIONS = 5.0
"""The same within the first 50 steps, where 5 steps in a row exceed it."""

LOST_SHARE = 0.25
"""Share of the loss's fall so far that a diverging loss has lost again."""

LEAST_RISE = 0.02
"""Rise of a diverging loss over its minimum, as a share of the minimum."""

SPIKE = 5.0
"""A gradient norm above this many medians of the steps before may be a spike."""

SPIKE_DEVIATIONS = 8.0
"""Robust standard deviations, in logarithms, above which it is one."""

BEFORE_SPIKE = 20
"""Logged steps that a spike is compared with."""

STALL = 2.0
"""A step longer than this many medians is a stall."""

NORMAL = 1.4826
"""Standard deviations of a normal distribution per median absolute deviation."""


class Divergence(NamedTuple):
    """Where a loss diverged: its step and smoothed loss, and the minimum before."""

    step: float
    loss: float
    least: float


class Stalls(NamedTuple):
    """Steps much longer than the median: how many, time lost, and distance.

    ``share`` is the time that they lost of all steady steps, ``every`` the number of
    steps between them, 0 if it is not regular.
    """

    number: int
    share: float
    every: int


def divergence(curve: Curve) -> Divergence | None:
    """Return where the loss of a curve diverged for good; None if it did not.

    At its end the smoothed loss, the median of 5 logged steps, exceeds its minimum by
    all of: 6 robust standard deviations of the noise between steps, a quarter of its
    fall until then, and 2 % of the minimum. A loss that never fell diverges if it
    exceeds its start in the same way.
    """
    rows = _losses(curve)
    smooth = _smoothed(rows)
    if len(smooth) <= SMOOTH:
        return None
    least = min(smooth)
    losses = [loss for _, loss in rows]
    before = losses[: max(NOISE_ROWS, SMOOTH + smooth.index(least))]
    limit = _limit(losses, DEVIATIONS * _noise(before), least)
    if smooth[-1] <= limit:
        return None
    below = [row for row, loss in enumerate(smooth) if loss <= limit]
    return Divergence(rows[below[-1] + SMOOTH][0], smooth[-1], least)


def early_divergence(curve: Curve) -> Divergence | None:
    """Return where the loss diverged within 50 steps after the first; None if not.

    The smoothed loss exceeds its earlier minimum by 5 robust standard deviations of
    the noise, a quarter of its fall and 2 % of the minimum, in 5 logged steps in a row.
    It may fall again as the learning rate decays.
    """
    numbers = [number for number in curve.step if math.isfinite(number)]
    rows = [
        (number, loss)
        for number, loss in _losses(curve)
        if numbers and number < numbers[0] + EARLY
    ]
    smooth = _smoothed(rows)
    losses = [loss for _, loss in rows]
    noise = EARLY_DEVIATIONS * _noise(losses)
    above = 0
    for row in range(1, len(smooth)):
        least = min(smooth[: row - above])
        limit = _limit(losses, noise, least)
        above = above + 1 if smooth[row] > limit else 0
        if above == SMOOTH:
            return Divergence(rows[row][0], max(smooth[: row + 1]), least)
    return None


def _losses(curve: Curve) -> list[tuple[float, float]]:
    """Return the numbers of the steps with a finite loss, and the losses."""
    return [
        (number, loss)
        for number, loss in zip(curve.step, curve.loss, strict=True)
        if math.isfinite(loss)
    ]


def _smoothed(rows: list[tuple[float, float]]) -> list[float]:
    """Return the medians of each 5 losses in a row."""
    losses = [loss for _, loss in rows]
    return [
        median(losses[row : row + SMOOTH]) for row in range(len(losses) - SMOOTH + 1)
    ]


def _limit(losses: list[float], noise: float, least: float) -> float:
    """Return the smoothed loss above which a run diverges, after its minimum."""
    fall = max(0.0, losses[0] - least)
    return least + max(noise, LOST_SHARE * fall, LEAST_RISE * abs(least))


def _noise(losses: Sequence[float]) -> float:
    """Return a robust standard deviation of a loss, from the steps between rows."""
    changes = [b - a for a, b in pairwise(losses)]
    if not changes:
        return 0.0
    centre = median(changes)
    return NORMAL * median(abs(each - centre) for each in changes) / math.sqrt(2)


def spikes(curve: Curve) -> list[tuple[float, float]] | None:
    """Return steps and sizes of spikes of the gradient norm; None without any norm.

    A spike exceeds 5 medians of the 20 logged steps before it, and lies 8 robust
    standard deviations of their logarithms (at least 0.1 each) above.
    """
    rows = [
        (number, norm)
        for number, norm in zip(curve.step, curve.grad_norm, strict=True)
        if math.isfinite(norm) and norm > 0
    ]
    if len(rows) <= BEFORE_SPIKE:
        return None
    found = []
    for row in range(BEFORE_SPIKE, len(rows)):
        before = [norm for _, norm in rows[row - BEFORE_SPIKE : row]]
        centre = median(before)
        number, norm = rows[row]
        if norm > SPIKE * centre:
            apart = median(abs(math.log(each / centre)) for each in before)
            if math.log(norm / centre) > SPIKE_DEVIATIONS * max(0.1, NORMAL * apart):
                found.append((number, norm / centre))
    return found


def stalls(curve: Curve) -> Stalls | None:
    """Return the stalls among the steady steps of a curve; None if it is too short."""
    rows = [
        (number, time)
        for number, time in zip(curve.step, curve.step_s, strict=True)
        if math.isfinite(time)
    ][WARMUP_ROWS:]
    if len(rows) < STEADY_ROWS:
        return None
    usual = median(time for _, time in rows)
    slow = [(number, time) for number, time in rows if time > STALL * usual]
    lost = sum(time - usual for _, time in slow)
    total = sum(time for _, time in rows)
    gaps = {round(b - a) for (a, _), (b, _) in pairwise(slow)}
    every = gaps.pop() if len(gaps) == 1 and len(slow) > 2 else 0
    return Stalls(len(slow), lost / total if total > 0 else 0.0, every)
