"""Verdicts where the GPU is slow for a few trials."""

import pytest

from fp8tune.search.answer.decide import decide
from fp8tune.search.confirm import again
from tests.search.tries import BEST, BF16, GIVEN, SPACE, but, history_of, ran, trials

EVEN = {GIVEN: 100.0, BEST: 100.3, SPACE.in_bf16(BEST): 80.0, BF16: 70.0}


@pytest.mark.parametrize("begins", range(12))
@pytest.mark.parametrize("lasts", [2, 3, 4, 6])
def test_a_gpu_that_is_slow_for_a_few_trials_makes_nothing_faster(begins, lasts):
    """Wherever they lie: as many trials of settings that are alike lose 6 %."""

    def now(point):
        number = len(tried)
        lost = 0.94 if begins <= number < begins + lasts else 1.0
        return ran(point, EVEN[point] * lost * (1 + (number % 3 - 1) / 1000))

    tried = []
    stages = [("baseline", GIVEN), ("bf16-baseline", BF16), ("search", BEST)]
    while stages or (point := again(history_of(tried))) is not None:
        stage, point = stages.pop(0) if stages else ("confirm", point)
        more = {"searched_all": True} if stage == "confirm" else {}
        record = but(now(point), **more)
        tried += [t._replace(position=len(tried)) for t in trials((stage, record))]
        assert len(tried) < 60
    assert decide(history_of(tried), 1.0).verdict == "same"
