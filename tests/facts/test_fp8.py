"""Shapes that FP8 linears ask for."""

import pytest

from fp8tune.facts import fp8


@pytest.mark.parametrize(
    ("tokens", "first"),
    [
        ((16,), 0),
        ((17,), 17),
        ((0,), 0),
        ((2048, 512), 0),
        ((2048, 513), 513),
        ((15, 17), 15),
        ((8192, 8, 4), 8),
        ((), 0),
    ],
)
def test_unaligned_tokens(tokens, first):
    assert fp8.unaligned_tokens(tokens) == first


@pytest.mark.parametrize(("heads", "size", "width"), [(8, 128, 1024), (1, 8, 8)])
def test_kv_size(heads, size, width):
    assert fp8.kv_size(heads, size) == width
