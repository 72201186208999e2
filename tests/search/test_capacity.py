"""What fits: from trials, from the job's GPU, from the records' own."""

import pytest

from fp8tune.search.capacity import Memory
from tests.search.tries import GIVEN, SPACE, ran

LINE = [(0, 1, 1, 1), (1, 1, 1, 1), (2, 1, 1, 1), (3, 1, 1, 1)]
"""Batch 1, 2, 4, 8 with 20, 30, 50, 90 GiB."""
PEAKS = (20.0, 30.0, 50.0, 90.0)


def runs(*indices, **fields):
    return [(LINE[i], ran(LINE[i], peak_gib=PEAKS[i], **fields)) for i in indices]


def chances(told, card=0.0):
    return Memory(SPACE, told, card).fit(LINE).probability


@pytest.mark.parametrize(("card", "fits"), [(79.1, False), (139.8, True)])
def test_the_jobs_gpu_decides(card, fits):
    chance = chances(runs(0, 1), card)[3]
    assert chance > 0.95 if fits else chance < 0.05


def test_an_unknown_gpu_leaves_it_open():
    assert 0.2 < chances(runs(0, 1))[3] < 0.8


def test_the_records_gpu_comes_before_the_jobs():
    told = runs(0, 1, more={"capacity_gib": 139.8})
    assert chances(told, 79.1)[3] > 0.95


@pytest.mark.parametrize("said", [0, -1, "80", True, None, 1e9])
def test_a_capacity_that_cannot_be_is_not_believed(said):
    told = runs(0, 1, more={"capacity_gib": said})
    assert 0.2 < chances(told)[3] < 0.8


def test_a_peak_above_the_jobs_gpu_refutes_it():
    assert chances(runs(0, 2), 39.5)[2] == 1.0


def test_running_out_of_memory_bounds_the_gpu_for_all_cells():
    eager = [(3, 1, 0, 1)]
    told = runs(0, 1)
    before = Memory(SPACE, told).fit(eager).probability[0]
    told.append((LINE[3], ran(LINE[3], outcome="oom")))
    assert Memory(SPACE, told).fit(eager).probability[0] < before / 2


def test_what_ran_fits_and_so_does_less():
    told = [(LINE[2], ran(LINE[2]))]
    assert list(chances(told)[:3]) == [1, 1, 1]
    assert chances(told)[3] < 1


@pytest.mark.parametrize("outcome", ["hang", "compile", "nan", "launch", "user"])
def test_other_failures_say_nothing_of_memory(outcome):
    told = runs(0, 1)
    more = [*told, (LINE[3], ran(LINE[3], outcome=outcome, peak_gib=500.0))]
    assert list(chances(more)) == list(chances(told))


def test_how_full_the_gpu_is():
    used = Memory(SPACE, runs(0, 1), 100.0).fit(LINE).used
    assert list(used) == pytest.approx([gib / 96 for gib in PEAKS], rel=0.05)


def test_nothing_is_known():
    fit = Memory(SPACE, []).fit([GIVEN])
    assert 0 < fit.probability[0] < 1
    assert fit.deviation[0] > 0.3


@pytest.mark.parametrize(
    ("peak", "bounds"), [(75.0, True), (45.0, False), (15.0, False), (0.0, False)]
)
def test_retries_bound_what_fits_elsewhere_where_the_gpu_may_be_full(peak, bounds):
    """As one that ran out of memory would, but no GPU has 15 GiB."""
    half = LINE[1], ran(LINE[1], peak_gib=0.6 * peak)
    fine, full = (
        Memory(SPACE, [half, (LINE[2], ran(LINE[2], peak_gib=peak, more=more))])
        for more in ({}, {"alloc_retries": 1})
    )
    chances = [memory.fit([(3, 1, 0, 1)]).probability[0] for memory in (fine, full)]
    assert (chances[1] < 0.6 * chances[0]) == bounds
    assert bounds or chances[1] > 0.85 * chances[0]
