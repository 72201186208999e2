"""What was meant, and whether that is certain."""

import pytest

from fp8tune.trainers.hints import is_clear, key_meant, value_meant
from tests.each import each

KEYS = frozenset({"batch_size", "seq_len"})


@each(
    ("hint", "path", "facts"),
    [
        ("", ("train", "x"), {}),
        (
            "did you mean `batch_size`?",
            ("train", "batchsize"),
            {"meant": "batch_size", "sure": True, "clear": True},
        ),
        (
            "did you mean `batch_size`?",
            ("train", "batch_sze"),
            {"meant": "batch_size", "sure": False, "clear": True},
        ),
        ("did you mean `other`?", ("train", "othr"), {}),
        (
            "did you mean `train.batch_size`?",
            ("model", "batch_size"),
            {"home": "train.batch_size"},
        ),
        ("did you mean `train.batch_size`?", ("model", "batch"), {}),
        (
            "did you mean `train.batch_size`?",
            ("batch_size",),
            {"home": "train.batch_size"},
        ),
        (
            "did you mean [train]?",
            ("trian",),
            {"meant": "train", "sure": False, "clear": True},
        ),
        ("did you mean `a.x` or `b.x`?", ("train", "x"), {}),
        ('did you mean `arch = "mot"`, which has it?', ("vlm", "x"), {}),
    ],
)
def test_key_meant(hint, path, facts):
    assert key_meant(hint, path, KEYS) == facts


@each(
    ("hint", "value", "facts"),
    [
        ("", "x", {}),
        ('did you mean "fp8"?', "FP8", {"meant": "fp8", "sure": True}),
        ('did you mean "fp8"?', " fp8 ", {"meant": "fp8", "sure": True}),
        ('did you mean "fp8"?', "mxfp8", {"meant": "fp8", "sure": False}),
        ('did you mean "none"?', False, {"meant": "none", "sure": False}),
        ("did you mean `fp8`?", "FP8", {}),
    ],
)
def test_value_meant(hint, value, facts):
    assert value_meant(hint, value) == facts


@pytest.mark.parametrize(
    ("text", "home"),
    [
        ("[model]\nbatch_size = 8\n", "train.batch_size"),
        ("[train]\ntp = 2\n", "distributed.tp"),
        ("[train]\nmax_text_len = 8\n", None),
    ],
)
def test_a_key_finds_home_but_into_no_section_that_makes_another_run(load, text, home):
    (fault,) = load(text).faults
    assert fault.kind == "unknown-key"
    assert fault.facts.get("home") == home


@each(
    ("word", "meant", "clear"),
    [
        ("FP8", "fp8", True),
        ("fp81", "fp8", True),
        ("e4m3", "fp8", True),  # by what it stands for, not by its letters
        ("bf16_with_fp8_mixed", "bf16_with_mxfp8_mixed", False),
        ("dp_shards", "dp_shard", True),
    ],
)
def test_is_clear(word, meant, clear):
    names = ("fp8", "bf16_with_mxfp8_mixed", "bf16_with_fp8_x_mixed", "dp_shard", "tp")
    assert is_clear(word, meant, names) is clear
