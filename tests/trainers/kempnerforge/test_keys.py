"""Keys that KempnerForge's loader does not know, or misses."""

import pytest

from tests.each import each
from tests.trainers.kempnerforge.loaded import faults


@each(
    ("text", "name", "table", "hint"),
    [
        ("[train]\nseqlen = 1", "seqlen", "[train]", "did you mean `seq_len`?"),
        ("[train]\nmax_seq_len = 1", "max_seq_len", "[train]", "`model.max_seq_len`"),
        ("[train]\ntp = 1", "tp", "[train]", "did you mean `distributed.tp`?"),
        ("[train]\nzzzz = 1", "zzzz", "[train]", ""),
        ("[trian]\na = 1", "trian", "a KempnerForge config", "did you mean [train]?"),
        ("[zzzz]\na = 1", "zzzz", "a KempnerForge config", ""),
        ("[data.datasset]", "datasset", "[data]", "did you mean `datasets`?"),
        (
            "[[data.datasets]]\npath = 'x'\npth = 'x'",
            "pth",
            "[data.datasets[0]]",
            "did you mean `path`?",
        ),
        (
            "[checkpoint.dyn_ckpt_window]\nstpo = 1",
            "stpo",
            "[checkpoint.dyn_ckpt_window]",
            "did you mean `stop`?",
        ),
    ],
)
def test_unknown_key(load, text, name, table, hint):
    (fault,) = load(text).faults
    assert fault.kind == "unknown-key"
    assert (fault.facts["name"], fault.facts["table"]) == (name, table)
    assert hint in fault.facts["hint"]
    assert bool(hint) is bool(fault.facts["hint"])


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


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("dim = 4096", ["dim"]),
        ("dim = 1\nzzz = 1", ["dim", "zzz"]),
        ("dim = 1\nn_heads = 1\n[model]\nn_layers = 1", ["dim", "n_heads"]),
        ("dim = 1\ntp = 1", ["dim", "tp"]),
    ],
)
def test_no_single_header_is_missing(load, text, unknown):
    assert faults(load(text)) == [("unknown-key", key) for key in unknown]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("[[vlm.freeze]]\nfrozen = true", ["vlm.freeze[0].module"]),
        (
            "[[vlm.freeze_schedule]]\n",
            ["vlm.freeze_schedule[0].start_step", "vlm.freeze_schedule[0].specs"],
        ),
        (
            "[[vlm.freeze_schedule]]\nstart_step = 1\nspecs = [{}]",
            ["vlm.freeze_schedule[0].specs[0].module"],
        ),
    ],
)
def test_missing_key(load, text, missing):
    assert faults(load(text)) == [("missing-key", key) for key in missing]


@each(
    ("text", "kinds"),
    [
        ("[vlm]\narch = 'mot'\nmot_image_n_heads = 1", []),
        ("[vlm]\nmot_image_n_heads = 1", ["unknown-key"]),
        ("[vlm]\narch = 'moma'\nmot_image_n_heads = 1", ["unknown-key"]),
        ("[vlm]\narch = 'zzz'\nmot_image_n_heads = 1", ["value-not-allowed"]),
        ("[vlm]\narch = 5\nmot_image_n_heads = 1", ["value-not-allowed"]),
        ("[vlm]\narch = 'zzz'\nnosuch = 1", ["unknown-key", "value-not-allowed"]),
        ("[vlm]\narch = 'cross_attention'\ncross_attention_n_heads = 1", []),
    ],
)
def test_variants(load, text, kinds):
    assert sorted(fault.kind for fault in load(text).faults) == kinds


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
