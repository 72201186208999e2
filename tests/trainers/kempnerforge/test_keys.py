"""Keys that KempnerForge's loader does not know, or misses."""

import pytest

from tests.trainers.kempnerforge.loaded import faults


def test_hints_stop_after_twenty_faults(load):
    text = "[train]\n" + "".join(f"seq_len{n} = 1\n" for n in range(30))
    hints = [bool(fault.facts["hint"]) for fault in load(text).faults]
    assert hints == [True] * 20 + [False] * 10


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dim = 4096\nn_heads = 32", ("dim", "model", ["dim", "n_heads"])),
        (
            "seq_len = 1\nbatch_size = 1\n[model]\ndim = 1",
            ("seq_len", "train", ["seq_len", "batch_size"]),
        ),
        (
            "dim = 1\nn_heads = 1\nn_layers = 1\nvocab_size = 1\nqk_norm = true\n"
            "norm_eps = 1.0",
            ("dim", "model", ["dim", "n_heads", "n_layers", "vocab_size", "..."]),
        ),
    ],
)
def test_missing_header(load, text, found):
    (fault,) = load(text).faults
    key, section, names = found
    assert (fault.kind, fault.path) == ("missing-header", (key,))
    assert fault.facts == {"key": key, "names": names, "section": section}


def test_all_faults_are_collected(load):
    text = """
[zzz]
[train]
seq_len = 0
batch_size = []
seed = "x"
mixed_precision = "fp7"
nosuch = 1
[[data.datasets]]
[[data.datasets]]
path = "x"
weight = 0
"""
    assert sorted(faults(load(text))) == sorted(
        [
            ("unknown-key", "zzz"),
            ("value-out-of-range", "train.seq_len"),
            ("wrong-type", "train.batch_size"),
            ("value-not-convertible", "train.seed"),
            ("unknown-precision", "train.mixed_precision"),
            ("unknown-key", "train.nosuch"),
            ("dataset-without-source", "data.datasets[0]"),
            ("value-out-of-range", "data.datasets[1].weight"),
        ]
    )
