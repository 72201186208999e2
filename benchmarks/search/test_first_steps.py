"""What is made of a warmup longer than a run can hold, where the truth is known."""

import random

import pytest

from benchmarks.search.stability import (
    LEARNED,
    long_answer,
    long_row,
    long_rows,
    long_training,
    long_worlds,
)

WORLDS = list(long_worlds())


@pytest.mark.parametrize("learned", LEARNED)
@pytest.mark.parametrize(
    ("world", "right"), WORLDS, ids=lambda w: getattr(w, "name", w)
)
def test_only_what_diverges_in_the_config_s_own_first_steps_is_rejected(
    world, right, learned
):
    every = [
        long_answer(long_training(world, random.Random(n), learned)) for n in range(20)
    ]
    assert long_row(world.name, learned, right, every)["reached"], every


def test_every_world_is_told():
    rows = list(long_rows(1, 0))
    assert [told["world"] for told in rows] == [
        world.name for world, _ in WORLDS for _ in LEARNED
    ]
