"""Overrides on KempnerForge's command line, as its own loader reads them.

``python -m tools.verdicts kempnerforge CHECKOUT --draw overridden`` compares both.
"""

import pytest

from fp8tune.formats.document import Unreadable
from tests.each import each

FILE = {"train": {"batch_size": 4, "compile_model": True}, "model": {"dim": 256}}
VLM = {"vision_encoder": {}, "vlm": {"arch": "mot"}}


@each(
    ("words", "values"),
    [
        ("--train.batch_size=64", {"train.batch_size": 64}),
        ("--train.batch_size=8 --train.batch_size=16", {"train.batch_size": 16}),
        ("--train.batch_size=1_0", {"train.batch_size": 10}),
        ("--optimizer.lr=1e-4 --train.max_steps=1e3", {"train.max_steps": 1000}),
        ("--optimizer.betas=(0.9,0.99)", {"optimizer.betas": [0.9, 0.99]}),
        ("--train.compile_model=false", {"train.compile_model": False}),
        ("--train.compile_model=0", {"train.compile_model": False}),
        ("--train.mixed_precision=fp8", {"train.mixed_precision": "fp8"}),
        ("--train.mixed_precision='fp8'", {"train.mixed_precision": "fp8"}),
        ("--checkpoint.load_path=None", {"checkpoint.load_path": None}),
        ("--model.n_heads=8 --model.n_kv_heads=None", {"model.n_kv_heads": 8}),
        ("--train={'seq_len':128}", {"train.seq_len": 128, "train.batch_size": 4}),
        ("--vlm=None", {"vlm": False}),
    ],
)
def test_values_are_coerced_as_by_the_trainer(kempnerforge, words, values):
    loaded = kempnerforge.load(FILE | VLM, tuple(words.split()))
    assert {key: loaded.values[key] for key in values} == values
    assert loaded.faults == []
    assert loaded.values["model.dim"] == 256


@each(
    ("words", "faults"),
    [
        ("--train.batchsize=1", [("unknown-key", "--train.batchsize=1")]),
        (
            "--batch_size=1 --seq_len=2",
            [("unknown-key", "--batch_size=1"), ("unknown-key", "--seq_len=2")],
        ),
        ("--train.batch_size=0", [("value-out-of-range", "--train.batch_size=0")]),
        ("--train.batch_size=None", [("wrong-type", "--train.batch_size=None")]),
        ("--train=5", [("section-not-a-table", "--train=5")]),
        (
            "--train=5 --train.batch_size=1",
            [("section-not-a-table", "--train.batch_size=1")],
        ),
        (
            "--model.dim 512",
            [("ignored-argument", "512"), ("value-not-convertible", "--model.dim")],
        ),
        ("--train.compile_model false", [("ignored-argument", "false")]),
    ],
)
def test_what_is_wrong_points_at_the_argument(kempnerforge, words, faults):
    found = kempnerforge.load(FILE, tuple(words.split())).faults
    assert sorted((fault.kind, fault.argument.text) for fault in found) == faults


def test_the_file_is_checked_before_the_overrides(kempnerforge):
    file = {"train": {"batch_size": 0, "seq_len": 3.5}}
    words = ("--train.batch_size=8", "--train.seq_len=128")
    (fault,) = kempnerforge.load(file, words).faults
    assert (fault.kind, fault.argument) == ("value-out-of-range", None)


@each(
    ("word", "reason"),
    [
        ("--vlm.arch=moma", "set it in the file"),
        ("--train.batch_size={1}", "does not check such a Python value"),
        ("--data.hf_dataset_name=b'x'", "does not check such a Python value"),
        (f"--model.dim={'1' * 10_001}", "an argument is too long"),
    ],
)
def test_what_is_not_checked_is_refused(kempnerforge, word, reason):
    with pytest.raises(Unreadable, match=reason):
        kempnerforge.load(FILE | VLM, (word,))
