"""What runs of a family say that its estimates are off by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp8tune.facts.calibration import Band, corrected
from fp8tune.facts.off import NOISE, REST, Measured
from fp8tune.facts.runs import MEMORY

BAND = Band(50.0, 40.0, 60.0)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], BAND),
        ([(10.0, 11.0)], Band(55.0, 55 * 0.97, 55 * 1.03, 1, 1.1)),
        ([(10.0, 11.0), (20.0, 22.0)], Band(55.0, 55 * 0.98, 55 * 1.02, 2, 1.1)),
        ([(10.0, 10.0), (10.0, 11.0)], Band(52.5, 50.0, 55.0, 2, 1.05)),
        ([(10.0, 5.0), (10.0, 15.0)], Band(50.0, 25.0, 75.0, 2, 1.0)),
    ],
)
def test_corrected(runs, expected):
    found = corrected(MEMORY, BAND, [Measured("", *run) for run in runs])
    assert found == pytest.approx(expected, rel=NOISE**2 / REST**2)


@pytest.mark.parametrize(
    ("share", "other", "factor"),
    [
        (0.0, 0.0, 1.1),
        (0.0, 1.0, 1.0),
        (0.5, 0.5, 1.1),
        (0.5, 1.0, 1.0),
        (1.0, 0.0, 1.02),
    ],
)
def test_what_is_not_arithmetic_is_corrected_first(share, other, factor):
    """A run 10 % off tells little of an estimate that has other parts."""
    run = Measured("", 10.0, 11.0, 10.0 * share)
    found = corrected(MEMORY, BAND, [run], 50.0 * other)
    assert found.factor == pytest.approx(factor, abs=0.005)


@pytest.mark.parametrize("measured", [(60.0, 110.0), (70.0, 71.0), (50.0, 51.0, 90.0)])
def test_the_band_holds_every_run_that_corrects_it(measured):
    narrow = Band(80.0, 78.4, 81.6)
    runs = [Measured("", 80.0, value) for value in measured]
    found = corrected(MEMORY, narrow, runs)
    assert found.low <= min(measured) + 1e-9
    assert found.high >= max(measured) - 1e-9


@pytest.mark.parametrize(("least", "high"), [(0.5, 60.0), (1.1, 60.0), (1.5, 75.0)])
def test_what_ran_out_lifts_the_high_end(least, high):
    out = [Measured("", 10.0, 10.0 * least)]
    assert corrected(MEMORY, BAND, [], 0.0, out) == Band(50.0, 40.0, high)


SHARES = st.floats(0, 1)


@given(SHARES, SHARES, st.floats(0.9, 1.1))
def test_no_correction_is_larger_than_what_the_run_was_off_by(run, target, ratio):
    """However little of the run, or much of the estimate, is no arithmetic."""
    one = Measured("", 10.0, 10.0 * ratio, 10.0 * run)
    found = corrected(MEMORY, BAND, [one], 50.0 * target)
    assert min(1, ratio) - 1e-9 <= found.factor <= max(1, ratio) + 1e-9
    assert found.low <= found.value <= found.high
    if run > 0.9 and target < 0.1 and abs(ratio - 1) > 0.05:
        assert found.low <= BAND.low
        assert found.high >= BAND.high
