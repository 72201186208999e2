"""Steps of the optimizer."""

import pytest

from fp8tune.facts import step


@pytest.mark.parametrize(
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
