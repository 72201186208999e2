"""Steps of the optimizer."""

import pytest

from fp8tune.facts import step


@pytest.mark.parametrize(
    ("warmup", "steps", "peak"),
    [
        (0, 100, 1.0),
        (10, 100, 1.0),
        (99, 100, 1.0),
        (100, 100, 0.99),
        (50, 20, 0.38),
        (2000, 500, 0.2495),
        (5, 1, 0.0),
    ],
)
def test_warmup_peak(warmup, steps, peak):
    assert step.warmup_peak(warmup, steps) == pytest.approx(peak)


@pytest.mark.parametrize(
    ("micro_batch", "grad_accum", "replicas", "shards", "seq_len", "tokens"),
    [
        (4, 8, 1, 3, 4096, 393_216),
        (8, 2, 1, 16, 4096, 1_048_576),
        (8, 4, 1, 16, 4096, 2_097_152),
        (1, 1, 2, 4, 10, 80),
    ],
)
def test_tokens(micro_batch, grad_accum, replicas, shards, seq_len, tokens):
    ranks = step.ranks(replicas, shards)
    sequences = step.sequences(micro_batch, grad_accum, ranks)
    assert step.tokens(sequences, seq_len) == tokens
