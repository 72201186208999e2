"""What the pages of benchmarks say of their seeds."""

from benchmarks.search.recording import of_seeds


def test_seeds_that_tuning_used_are_counted():
    tuned = (range(60), range(100, 120))
    assert [of_seeds(first, 30, tuned) for first in (50, 5000)] == [
        "seeds 50 and up, 10 of them used in tuning",
        "seeds 5000 and up, none of them used in tuning",
    ]
