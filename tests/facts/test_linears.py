"""Linears of a decoder: shapes, sharding and repeated passes."""

import pytest

from fp8tune.facts.linears import (
    BLOCK,
    Decoder,
    Gemm,
    Linear,
    odd,
    of_block,
    of_decoder,
)

LLAMA_8B = Decoder(32, 4096, 32, 8, 128, 14336, 3, 128256, 32)


def test_llama_3_8b_whole():
    assert of_decoder(LLAMA_8B, 8192, 8192, repeated=frozenset(BLOCK[:-1])) == (
        Gemm("q_proj", 8192, 4096, 4096, 32, True, 4),
        Gemm("k_proj", 8192, 4096, 1024, 32, True, 4),
        Gemm("v_proj", 8192, 4096, 1024, 32, True, 4),
        Gemm("o_proj", 8192, 4096, 4096, 32, True, 4),
        Gemm("gate_proj", 8192, 4096, 14336, 32, True, 4),
        Gemm("up_proj", 8192, 4096, 14336, 32, True, 4),
        Gemm("down_proj", 8192, 14336, 4096, 32, True, 3),
        Gemm("head", 8192, 4096, 128256, 1, True, 3),
    )


@pytest.mark.parametrize(
    ("shape", "weights"),
    [
        (LLAMA_8B, 8_030_261_248 - 128256 * 4096 - 65 * 4096),
        # Llama 2 7B: 6,738,415,616 with embedding and norms.
        (
            Decoder(32, 4096, 32, 32, 128, 11008, 3, 32000, 32),
            6_738_415_616 - 32000 * 4096 - 65 * 4096,
        ),
    ],
)
def test_weights_are_those_of_the_published_model(shape, weights):
    assert sum(gemm.weights for gemm in of_decoder(shape, 1, 1)) == weights


def test_tensor_parallelism_divides_every_linear():
    whole = of_decoder(LLAMA_8B, 4096, 4096)
    parts = of_decoder(LLAMA_8B, 4096, 4096, tp=4, head_tp=4)
    assert [g.flops for g in parts] == [g.flops / 4 for g in whole]
    assert [(g.m, g.name) for g in parts] == [(g.m, g.name) for g in whole]


def test_parts_of_a_weight_on_one_tensor_parallel_rank():
    whole = Linear("q_proj", 4096, 2048, "rows")
    assert whole.on_rank(8) == (512, 2048)
    assert whole._replace(split="columns").on_rank(8) == (4096, 256)
    assert whole._replace(split="").on_rank(8) == (4096, 2048)


def test_the_first_size_that_is_no_multiple():
    linears = of_block(1024, 1024, 80, 2816, 32016)
    assert odd(linears, 16) == ("", "")
    assert odd(linears, 32) == ("k_proj", "k_proj has 80 outputs")
    at_two = ("head", "head has 32016 outputs / 2 TP ranks = 16008")
    assert odd(linears[-1:], 16, 2) == at_two
    down = ("down_proj", "down_proj has 2816 inputs / 32 TP ranks = 88")
    assert odd(linears[-2:-1], 16, 32) == down
