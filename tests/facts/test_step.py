"""Steps of the optimizer."""

import pytest

from fp8tune.facts import step
from tests.each import each


@each(
    ("warmup", "steps", "peak"),
    [
        (0, 100, 1.0),
        (10, 100, 1.0),
        (99, 100, 1.0),
        (100, 100, 0.99),
        (50, 20, 0.38),
        (2000, 500, 0.2495),
        (5, 1, 0.0),
    ],
)
def test_warmup_peak(warmup, steps, peak):
    assert step.warmup_peak(warmup, steps) == pytest.approx(peak)


@pytest.mark.parametrize(
    ("count", "highest", "usual"),
    [
        (3e8, 3e-3, 3e-4),
        (8.03e9, 2e-3, 3e-4),
        (1.48e10, 9e-4, 3e-4),
        (7.06e10, 3.2e-4, 1.5e-4),
        (4.05e11, 2.2e-4, 8e-5),
    ],
)
def test_learning_rates_fall_with_size(count, highest, usual):
    assert (step.published_peak(count), step.usual_peak(count)) == (highest, usual)
