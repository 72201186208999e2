"""What a warm start saves, and what a misleading study costs."""

import statistics

from benchmarks.search.head_start import compare
from benchmarks.search.near import near, unlike

PAIRS = range(7100, 7103)


def test_a_near_study_saves_trials():
    found = [compare(near(seed), 0.1, alike=True) for seed in PAIRS]
    fresh = sum(both.fresh.chosen for both in found)
    started = sum(both.started.chosen for both in found)
    assert started <= 0.7 * fresh
    assert all(both.started.fraction > 0.97 for both in found)


def test_a_misleading_study_costs_little():
    found = [compare(unlike(seed), 0.1, alike=False) for seed in PAIRS]
    lost = [both.fresh.fraction - both.started.fraction for both in found]
    assert statistics.fmean(lost) < 0.02
    assert max(both.started.oom for both in found) <= 5
