"""The errors of estimates, from measured runs."""

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
    """A predicted and a measured value, of one family of configs.

    ``exact`` is the part of the prediction that number formats give exactly: weights,
    moments, gradients and logits.
    """

    family: str
    predicted: float
    measured: float
    exact: float = 0.0


class Factors(NamedTuple):
    """The factors for an estimate's exact part and for its rest."""

    exact: float = 1.0
    rest: float = 1.0

    def of(self, predicted: float, exact: float) -> float:
        """The corrected estimate."""
        return self.exact * exact + self.rest * (predicted - exact)


def median(runs: Sequence[Measured]) -> Factors:
    """One factor for both parts: the median error, or 1."""
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
    """A factor for each part, by least squares around 1.

    A run whose peak is mostly state then says little about activations, and vice versa.
    Deviations are relative, see ``EXACT``. The error that this does not explain is
    applied to every part alike.
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
    """The factor of an estimate, and whether its parts may need a larger one.

    No correction exceeds the errors of the runs themselves: a run that is mostly state
    says little about its small rest, and a job with ``FAINT`` times as much of that may
    be further off.
    """
    wanted = by.of(predicted, exact) / predicted
    ratios = [1.0, *(run.measured / run.predicted for run in runs)]
    factor = min(max(wanted, min(ratios)), max(ratios))
    rests = [1 - run.exact / run.predicted for run in runs]
    faint = 1 - exact / predicted > FAINT * max(rests, default=1.0)
    return factor, faint or abs(factor - wanted) > NOISE
