"""Warmups that the stability stage proposes where the needed one is known."""

import random

import pytest

from benchmarks.search.stability import (
    OFFERED,
    World,
    proposed,
    training,
    warmup_row,
    warmup_worlds,
)
from fp8tune.trials.record import LossRun

CERTAIN = [world for world in warmup_worlds() if world.wrong.diverges]


@pytest.mark.parametrize("world", CERTAIN, ids=lambda world: str(world.needed))
def test_no_warmup_is_proposed_below_which_fp8_diverges(world):
    said = [proposed(training(world, random.Random(n))) for n in range(20)]
    found = warmup_row(world, said)
    assert (found["too_short"], found["reached"]) == (0, True)
    assert found["exact"] >= 0.8


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("warmup", OFFERED)
def test_only_a_warmup_that_is_too_short_goes_wrong(warmup, both):
    world = World("", 8, CERTAIN[0].wrong, both)
    train = training(world, random.Random(1))
    for precision in ("fp8", "bf16"):
        made = train(precision, LossRun(0, warmup, 48, 10))
        ill = warmup < 8 and (both or precision == "fp8")
        assert made.precision == precision
        assert (made.nan or made.losses[-1] > made.losses[0]) is ill


def test_what_is_proposed_beside_what_is_right():
    world = World("", 8, CERTAIN[0].wrong)
    found = warmup_row(world, [(2, 6), (5, 6), (10, 8), (20, 10), (None, 10)])
    shares = [found[name] for name in ("exact", "too_short", "too_long", "none")]
    assert shares == [0.2, 0.4, 0.2, 0.2]
    assert (found["right"], found["runs"], found["reached"]) == (10, 8.0, False)
