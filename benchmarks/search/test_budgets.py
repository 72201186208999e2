"""How good whole searches on landscapes are."""

import statistics

from benchmarks.search import budgets
from tests.search.test_strategy import SEEDS
from tests.support.landscape import world


def test_most_landscapes_are_solved_in_20_minutes():
    results = [budgets.searched(world(seed), 20, 0.0) for seed in SEEDS]
    assert statistics.median(result["fraction"] for result in results) >= 0.99
    assert min(result["fraction"] for result in results) >= 0.9
    assert statistics.median(result["oom"] for result in results) <= 1


def test_an_estimate_saves_trials_and_a_wrong_one_does_no_harm():
    places = [world(seed) for seed in SEEDS[:3]]
    for error in (0.02, 0.25):
        results = [budgets.searched(place, 20, error) for place in places]
        assert sum(result["fraction"] for result in results) >= 0.98 * len(places)
