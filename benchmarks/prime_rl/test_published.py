"""Published runs of prime-rl, and their estimates."""

from benchmarks.prime_rl.published import runs
from fp8tune.trainers.prime_rl.memory import BANDS
from tests.each import each


@each("run", runs(), ids=lambda run: run.name)
def test_published_runs_are_within_their_bands(run):
    below, above = BANDS[run.job["estimate_family"]]
    assert -below < 1 / (1 + run.error) - 1 < above
