"""Parameter counts against models whose counts are published."""

import pytest

from fp8tune.facts import params
from fp8tune.job import Unknown


def count(layers, hidden, ffn, heads, kv_heads, vocab, *, tied=False, matrices=3):
    head_dim = hidden // heads
    return params.count(
        layers,
        layers,
        hidden,
        tied,
        params.attention(hidden, heads, kv_heads, head_dim),
        params.ffn(hidden, ffn, matrices),
        params.embedding(hidden, vocab),
    )


@pytest.mark.parametrize(
    ("model", "published"),
    [
        ((32, 4096, 14336, 32, 8, 128256), 8_030_261_248),  # Llama 3 8B
        ((32, 4096, 11008, 32, 32, 32000), 6_738_415_616),  # Llama 2 7B
        ((40, 5120, 13824, 40, 40, 32000), 13_015_864_320),  # Llama 2 13B
        ((80, 8192, 28672, 64, 8, 128256), 70_553_706_496),  # Llama 3 70B
    ],
)
def test_published_models(model, published):
    assert count(*model) == published


def test_mixtures_of_experts_are_unknown():
    with pytest.raises(Unknown) as error:
        params.count(4, 2, 64, False, 1, 1, 1)
    assert error.value.args == ("params.count",)
