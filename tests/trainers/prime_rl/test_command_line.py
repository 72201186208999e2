"""prime-rl's command line: ``uv run sft @ CONFIG --model.seq-len 4096``."""

import pytest

from fp8tune.formats.document import Unreadable
from fp8tune.trainers.faults import dotted
from fp8tune.trainers.trainer import trainer
from tests.each import each

SFT = trainer("prime_rl==0.8.1.dev67.sft")


@each(
    ("words", "values"),
    [
        ("--data.seq-len 4096", {"data.seq_len": 4096}),
        ("--clean --max-steps 5", {"clean": True, "max_steps": 5}),
        ("--no-clean", {"clean": False}),
        ("--no-model.ac-offloading", {"model.ac_offloading": None}),
        ("--ckpt", {"ckpt": True, "ckpt.interval": 5}),
        ("--no-ckpt", {"ckpt": None}),
        ("--log.ranks-filter 0 1 --clean", {"log.ranks_filter": [0, 1], "clean": True}),
        ('--model.lora {"rank":8}', {"model.lora.rank": 8}),
    ],
)
def test_overrides_are_laid_over_the_file(words, values):
    loaded = SFT.load({"ckpt": {"interval": 5}}, tuple(words.split()))
    assert loaded.faults == []
    assert {key: loaded.values.get(key) for key in values} == values


def test_what_is_wrong_points_at_its_argument():
    loaded = SFT.load({}, ("--optim.lr", "fast", "--model.fp8"))
    assert [(f.kind, dotted(f.path), f.argument.text) for f in loaded.faults] == [
        ("unknown-key", "model.fp8", "--model.fp8"),
        ("value-not-convertible", "optim.lr", "--optim.lr"),
    ]


@each("words", ["x", "--trainer @ a.toml", "@ b.toml", "--model.lora {"])
def test_what_is_not_followed(words):
    with pytest.raises(Unreadable):
        SFT.load({}, tuple(words.split()))
