"""Paths, tokenizers and sources of data."""

import pytest

from fp8tune.job import Unknown
from fp8tune.trainers.kempnerforge import data
from tests.each import each


@each(
    ("path", "literal"),
    [
        ("~/tokens", True),
        ("~user/tokens", True),
        ("$SCRATCH/tokens", True),
        ("/n/${LAB}/tokens", True),
        ("s3://bucket/tokens", True),
        ("hf://datasets/x", True),
        ("/data/tokens", False),
        ("tokens~old", False),
        ("/data/$5", False),
        ("a://b:c", True),
        ("data/x y://z", False),
        ("", False),
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


@pytest.mark.parametrize("name", ["", "/models/gpt2", "Qwen/Qwen3.5-2B-Base", 5])
def test_other_tokenizers_are_unknown(name):
    with pytest.raises(Unknown):
        data.tokenizer_ids(name)
