"""Paths, tokenizers and sources of data."""

import pytest

from fp8tune.trainers.kempnerforge import data
from tests.each import each


@each(
    ("path", "literal"),
    [
        ("~/tokens", True),
        ("$SCRATCH/tokens", True),
        ("s3://bucket/tokens", True),
        ("hf://datasets/x", True),
        ("/data/tokens", False),
        ("a://b:c", True),
        (["~"], False),
    ],
)
def test_paths_that_nobody_expands(path, literal):
    assert data.literal_load_path(path) is literal


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gpt2-xl", (50257, 50304)),
        ("meta-llama/Llama-3.2-1B", (128002, 128256)),
        ("Qwen/Qwen2.5-7B", (151644, 151936)),
    ],
)
def test_tokenizers_are_known_by_the_beginning_of_their_names(name, sizes):
    assert (data.tokenizer_ids(name), data.tokenizer_rows(name)) == sizes
