"""What measured runs say that estimates are off by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

EXACT, REST, NOISE = 0.01, 0.1, 0.005
"""How far arithmetic of number formats is taken to be off, the rest, and one run.

Relative, one standard deviation each. Not fitted: half or twice of any of them leaves
every published run of other trainers within 2 % (``tests/facts/test_accuracy.py``).
"""

FAINT = 2.0
"""How many times a run's share of what is no arithmetic an estimate may have."""


class Measured(NamedTuple):
    """A value as predicted and as measured, of one family of configs.

    ``exact`` is how much of what is predicted is arithmetic of number formats: weights,
    moments, gradients and logits.
    """

    family: str
    predicted: float
    measured: float
    exact: float = 0.0


class Factors(NamedTuple):
    """What an estimate is multiplied by: its exact part, and the rest of it."""

    exact: float = 1.0
    rest: float = 1.0

    def of(self, predicted: float, exact: float) -> float:
        """The estimate as corrected."""
        return self.exact * exact + self.rest * (predicted - exact)


def median(runs: Sequence[Measured]) -> Factors:
    """One factor for all: the median error, or 1."""
    ratios = sorted(run.measured / run.predicted for run in runs)
    if not ratios:
        return Factors()
    half = len(ratios) // 2
    middle = (ratios[half] + ratios[~half]) / 2
    return Factors(middle, middle)


def parts(
    runs: Sequence[Measured],
    exact: float = EXACT,
    rest: float = REST,
    noise: float = NOISE,
) -> Factors:
    """A factor for each part, by least squares about 1.

    So a run whose peak is mostly state says little of activations, and one of mostly
    activations little of state. Deviations are relative, see ``EXACT``. What of the
    runs that cannot explain is in every part alike.
    """
    own, other, both = (noise / exact) ** 2, (noise / rest) ** 2, 0.0
    right = [own, other]
    for run in runs:
        share = run.exact / run.predicted
        ratio = run.measured / run.predicted
        own, other = own + share**2, other + (1 - share) ** 2
        both += share * (1 - share)
        right[0] += share * ratio
        right[1] += (1 - share) * ratio
    scale = own * other - both**2
    found = Factors(
        (right[0] * other - right[1] * both) / scale,
        (right[1] * own - right[0] * both) / scale,
    )
    left = [run._replace(predicted=found.of(run.predicted, run.exact)) for run in runs]
    return Factors(*(median(left).rest * factor for factor in found))


def limited(
    by: Factors, runs: Sequence[Measured], predicted: float, exact: float
) -> tuple[float, bool]:
    """What an estimate is multiplied by, and whether its parts may ask for more.

    No correction is larger than the errors of the runs themselves: a run that is
    mostly state says little about its small rest, and what has ``FAINT`` times as much
    of it may be further off.
    """
    wanted = by.of(predicted, exact) / predicted
    ratios = [1.0, *(run.measured / run.predicted for run in runs)]
    factor = min(max(wanted, min(ratios)), max(ratios))
    rests = [1 - run.exact / run.predicted for run in runs]
    faint = 1 - exact / predicted > FAINT * max(rests, default=1.0)
    return factor, faint or abs(factor - wanted) > NOISE
