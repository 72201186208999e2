"""Gains of FP8 against every published pair, each model left out of the fit in turn."""

import pytest

from benchmarks.estimates import gains
from benchmarks.estimates.pairs import pairs
from fp8tune.facts.steptime import engines


def test_what_is_asked_of_gains_is_met_but_where_the_page_says_why():
    missed = [
        promise.partition(":")[0] for promise, _, met in gains.targets() if not met
    ]
    assert missed == ["mixture of experts", "no sign error below 1.03 and above 1.10"]
    wrong = {row.name for row in gains.rows() if row.wrong}
    assert {name for name in wrong if "rowwise" not in name} == set()


@pytest.mark.parametrize(
    "engine", ["Transformer Engine", "Transformer Engine in Megatron"]
)
def test_the_band_holds_nine_of_ten_pairs_of_each_engine(engine):
    held = [row.held for row in gains.rows() if row.engine == engine]
    assert sum(held) >= 0.9 * len(held)


def test_a_step_has_the_tokens_that_its_source_gives():
    """Tokens/s per GPU of NVIDIA's tables, of steps with each kind of parallelism."""
    given = {
        "llama3-8b, 8 GPUs, v25.03": 10253.5,
        "llama3-70b, 64 GPUs, v25.04.02": 1117.6,
        "llama3-405b, 512 GPUs, v25.04.02": 207.1,
        "grok-1, 512 GPUs, v25.05.05": 1028.3,
        "llama4-maverick, 512 GPUs, v25.05.05": 3702.8,
        "gpt3-175b, 128 GPUs, v25.01": 459.7,
    }
    by_name = {pair.name: pair for pair in pairs()}
    for name, tokens in given.items():
        pair = by_name[name]
        step = pair.bf16
        each = step.tokens * step.shards * step.grad_accum / pair.gpus
        assert each / pair.bf16_seconds == pytest.approx(tokens, rel=0.001)


def test_fp8_shortens_no_part_but_linears_and_communication():
    pair = next(pair for pair in pairs() if pair.name.startswith("llama3-8b, 8 GPUs"))
    engine = engines()["te-megatron"]
    one, other = pair.parts(engine)
    assert other.linears < one.linears
    assert other.communication <= one.communication
    assert other[1:4] == one[1:4]
