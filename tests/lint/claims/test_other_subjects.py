"""Comments on something else than this run stay silent."""

import pytest

from tests.each import each
from tests.lint.claims.said import CONFIG, TITLE, said


@each(
    "comment",
    [
        "32 seqs per step on each GPU.",
        "One rank: 32 seqs/step",
        "Rank 0: 32 sequences per step",
        "each GPU sees 131k tokens per step",
        "per GPU 131k tokens per step",
        "6.98B params (non-embedding)",
        "embeddings: 1.05B params",
        "Model: 8B params, of which embeddings: 0.53B params",
        "MLP: 5.6B params",
        "each GPU holds 0.5B params",
        "Distilled from a teacher with 80 layers, 64 heads.",
        "Vision tower: SigLIP so400m, 27 layers, 16 heads",
        "13B: dim=5120, n_layers=40",
        "Llama-2: vocab_size=32000",
        "padded from vocab_size=128000",
        "(tokenizer vocab_size = 128000, padded)",
        "as in GPT-3 (batch_size=512)",
        "following MosaicML, warmup_steps=100",
        "Recipe of torchtitan: seq_len = 8192, lr = 3e-4.",
        "Known bad: batch_size=16",
        "OK on H200 with batch_size=16",
        "H200: batch_size=16",
        "~45 GB/GPU at batch_size = 4",
        "the full run has max_steps=100000",
        "Pretrained with max_seq_len = 2048, extended here",
        "LLaMA: 4M tokens per step",
        "the 7B reference run used 4M tokens per step",
        "critical batch: 2048 sequences per step",
        "Peak memory 16 GB on the CPU side",
        "peak memory: 20 GB for weights and optimizer",
        "with AC off: 105 GB",
        "AC off: 105 GB",
        "next: AC = selective",
        "AC is off in eval",
    ],
)
def test_other_subjects(lint, comment):
    """What is not surely of this run, and of all of it, is passed over."""
    assert said(lint, f"{TITLE}{comment}") == []
    assert said(lint, f"{TITLE}Words of its own.\n{comment}") == []


@pytest.mark.parametrize(
    "title",
    [
        "VLM 7B with SigLIP2 so400m: vision tower of 27 layers, 16 heads",
        "Run with 64 GPUs: dp_shard = 64 gives 4 sequences",
        "Student of a teacher with 80 layers",
    ],
)
def test_titles_on_something_else(lint, title):
    assert said(lint, title) == []


def test_a_comment_beside_a_key_on_something_else(lint):
    config = CONFIG.replace('"full"', '"full"  # AC is off in eval')
    assert said(lint, TITLE.rstrip(), config) == []
