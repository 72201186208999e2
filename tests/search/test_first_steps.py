"""What is made of a warmup longer than a run can hold, where the truth is known."""

import random

import pytest

from benchmarks.search.first_steps import LEARNED, begun, found, measured, row, worlds

WORLDS = list(worlds())


@pytest.mark.parametrize("learned", LEARNED)
@pytest.mark.parametrize(
    ("world", "right"), WORLDS, ids=lambda w: getattr(w, "name", w)
)
def test_only_what_diverges_in_the_config_s_own_first_steps_is_rejected(
    world, right, learned
):
    every = [found(begun(world, random.Random(n), learned)) for n in range(20)]
    assert row(world.name, learned, right, every)["reached"], every


def test_every_world_is_told():
    rows = list(measured(1, 0))
    assert [told["world"] for told in rows] == [
        world.name for world, _ in WORLDS for _ in LEARNED
    ]
