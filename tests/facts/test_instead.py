"""Other values for a run: what fits by the whole band, and what it gains."""

import pytest

from fp8tune.job import Unknown
from tests.each import each
from tests.facts.shapes import LLAMA_8B

TEXT = LLAMA_8B + "[distributed]\ntp = {tp}\ndp_shard = {shards}\n"


@pytest.fixture
def config(job):
    def build(batch=2, ac="full", accum=1, tp=1, shards=-1, world_size=8, gpu="h200"):
        text = TEXT.format(batch=batch, ac=ac, accum=accum, tp=tp, shards=shards)
        return job(text, world_size=world_size, gpu=gpu)

    return build


def known(found, *names):
    try:
        return tuple(found[f"instead.{name}"] for name in names)
    except Unknown as error:
        return error.args[0]


@each(
    ("values", "ac"),
    [
        ({"batch": 2}, ("none",)),
        ({"batch": 5}, ("selective",)),
        ({"batch": 8}, "instead"),
        ({"batch": 2, "ac": "selective"}, "instead.lighter_ac"),
        ({"batch": 2, "gpu": ""}, "gpu"),
        ({"batch": 2, "world_size": 0}, "world_size"),
    ],
)
def test_the_lightest_ac_that_fits(config, values, ac):
    assert known(config(**values), "ac") == ac


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        ({"batch": 1, "accum": 8, "ac": "none", "world_size": 16}, (2, 4)),
        ({"batch": 2, "accum": 2, "ac": "none", "world_size": 16}, (4, 1)),
        ({"batch": 4, "accum": 1}, "instead"),
        ({"batch": 1, "accum": 8, "gpu": ""}, "gpu"),
        ({"batch": 1, "accum": 8, "ac": "none", "shards": 24}, "instead"),
    ],
)
def test_the_micro_batch_that_fits(config, values, sizes):
    assert known(config(**values), "micro_batch", "grad_accum") == sizes


@pytest.mark.parametrize("shards", [-1, 3])
def test_fsdp_alone(config, shards):
    found = config(batch=4, accum=8, tp=4, shards=shards, world_size=12)
    assert known(found, "fsdp_micro_batch", "fsdp_grad_accum") == (8, 1)


@pytest.mark.parametrize(
    ("given", "names", "then"),
    [
        ({"batch": 2}, ("ac_gib", "ac_gain"), {"ac": "none"}),
        (
            {"batch": 1, "accum": 8, "ac": "none"},
            ("batch_gib", "batch_gain"),
            {"batch": 2, "accum": 4},
        ),
        (
            {"batch": 4, "accum": 8, "tp": 4, "world_size": 12},
            ("fsdp_gib", "fsdp_gain"),
            {"batch": 8, "accum": 1, "tp": 1},
        ),
    ],
    ids=["ac", "batch", "fsdp"],
)
def test_what_is_said_is_what_the_other_config_gets(config, given, names, then):
    before, after = config(**given), config(**{**given, **then})
    gain = after["speed.tokens_per_second"] / before["speed.tokens_per_second"]
    assert after["memory.fit"] == "fits"
    assert known(before, *names) == pytest.approx((after["memory.high_gib"], gain))
