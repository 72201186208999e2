"""What is offered while a config is typed, at the mark ``|``."""

import pytest

from fp8tune.lsp.checks import Linter
from fp8tune.lsp.completion import Offer
from fp8tune.lsp.place import place_at
from tests.each import each

TOML = '[model]\ndim = 8\n[train]\nseq_len = 8\nmixed_precision = "fp8"\n'
YAML = "base_model: x\nfp8: true\nbf16: true\nmicro_batch_size: 1\n"
JSON = '{"zero_optimization": {"stage": 2}, "train_batch_size": 8, \n'
SCRIPT = (
    "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --lr 1e-4 \\\n"
    "  --hidden-size 4096 --num-attention-heads 32 --micro-batch-size 1 "
)


@pytest.fixture(scope="module")
def linter():
    return Linter()


def offers(linter, tmp_path, name, text):
    """Return what is offered at the mark in a text, with what is typed there."""
    path, place = str(tmp_path / name), text.index("|")
    text = text.replace("|", "", 1)
    return linter.complete(path, {path: text.encode()}, text, place)


PLACES = {
    ("a.toml", "[train]\nse|"): ("key", "train", "se"),
    ("a.toml", "[[data.datasets]]\npath = 1\n|"): ("key", "data.datasets[]", ""),
    ("a.toml", "model.d|"): ("key", "model", "d"),
    ("a.toml", '[train]\nmixed_precision = "f|'): (
        *("value", "train.mixed_precision", '"f'),
    ),
    ("a.toml", "[tra|"): ("table", "", "tra"),
    ("a.toml", "# notes on tr|"): None,
    ("a.toml", "# fp8tune: gpu=h1|"): ("comment", "gpu", "h1"),
    ("a.toml", "tp = 4 # fp8tune: ignore[a, fp8-|"): ("comment", "ignore", "fp8-"),
    ("a.yaml", "a: 1\nb:\n  c:\n    d: 1\n  e: 2\n  |"): ("key", "b", ""),
    ("a.yaml", "a:\n- b: 1\n  c: 2\n- d: 3\n  e|"): ("key", "a[]", "e"),
    ("a.yaml", "a:\n  - b:\n      c: |"): ("value", "a[].b.c", ""),
    ("a.yaml", "a:\n  b: 1\n\n# x\nc|"): ("key", "", "c"),
    ("a.json", '{"a": {"b": [1, {"c": "x", "d|'): ("key", "a.b[]", '"d'),
    ("a.json", '{"a": {"b": 1}, "c": tr|'): ("value", "c", "tr"),
    ("a.json", '{"a": "}{", "b": "|'): ("value", "b", '"'),
    ("a.json", "[1, |"): None,
    ("a.sh", "python x.py --fp8-|"): ("key", "", "--fp8-"),
    ("a.sh", "python x.py --fp8-format hy|"): ("value", "fp8_format", "hy"),
    ("a.sh", "python x.py --fp8-format=|"): ("value", "fp8_format", ""),
    ("a.sh", "python x|"): None,
}


@each(("case", "expected"), PLACES.items())
def test_the_place_is_told_by_the_lines_before_it(case, expected):
    name, text = case
    offset = text.index("|")
    assert place_at(name, text.replace("|", ""), offset) == expected


OFFERED = {
    ("a.toml", f"{TOML}batch|"): "batch_size = ",
    ("a.toml", f"{TOML}batch| = 8"): "batch_size",
    ("a.toml", f"{TOML}compile_model = |"): "true",
    ("a.toml", f"{TOML}[dis|"): "distributed",
    ("a.toml", f"# fp8tune: trainer=torch|\n{TOML}"): "torchtitan==0.2.2",
    ("a.toml", "# fp8tune: trainer=torchtitan==0.2.2\n[training]\n|"): "seq_len = ",
    ("a.yaml", f"{YAML}sequence_|"): "sequence_len: ",
    ("a.yaml", f"{YAML}datasets:\n  - path: x\n    |"): "split: ",
    ("a.yaml", f"{YAML}pe|"): "peft:",
    ("a.json", f'{JSON}"fp16": {{"|"}}}}'): '"enabled": ',
    ("a.json", f'{JSON}"bf16": {{"enabled": |}}}}'): "true",
    ("a.sh", f"{SCRIPT} --fp8-format |"): "hybrid",
    ("a.sh", f"{SCRIPT} --fp8|"): "--fp8-format",
}


@each(("case", "expected"), OFFERED.items())
def test_what_the_trainer_has_is_offered(linter, tmp_path, case, expected):
    _, found = offers(linter, tmp_path, *case)
    assert expected in [offer.text for offer in found]


def test_keys_that_are_there_are_not_offered(linter, tmp_path):
    _, found = offers(linter, tmp_path, "a.toml", f"{TOML}|")
    assert not {"seq_len = ", "mixed_precision = "} & {offer.text for offer in found}


def test_a_key_is_offered_with_its_page(linter, tmp_path):
    _, found = offers(linter, tmp_path, "a.toml", f"{TOML}batch|")
    assert next(offer for offer in found if offer.text == "batch_size = ") == Offer(
        "key",
        "batch_size = ",
        "whole number, default 8",
        "**`train.batch_size`** (KempnerForge)\n\nMicro-batch per data-parallel rank "
        "[sequences].\n\nwhole number; above 0; default: 8",
    )
