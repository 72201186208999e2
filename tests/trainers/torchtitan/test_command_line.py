"""How torchtitan reads its command line."""

import pytest

from fp8tune.formats.document import Unreadable
from fp8tune.trainers.trainer import trainer
from tests.each import each

FILE = {"training": {"local_batch_size": "2"}, "compile": {"enable": True}}


@each(
    ("words", "key", "value"),
    [
        ("--training.local_batch_size 4", "training.local_batch_size", 4),
        ("--training.local-batch-size=4", "training.local_batch_size", 4),
        ("--training.steps=5 --training.steps=1_0", "training.steps", 10),
        ("--compile.no-enable", "compile.enable", False),
        ("--compile.enable", "compile.enable", True),
        ("--compile.components=model", "compile.components", ["model"]),
        ("--optimizer.lr=3e-4", "optimizer.lr", 3e-4),
        ("--training.dataset_path=None", "training.dataset_path", None),
    ],
)
def test_overrides_are_converted(words, key, value):
    words = ("--training.local_batch_size=2", *words.split())
    loaded = trainer("torchtitan").load(FILE, words)
    assert (loaded.faults, loaded.values[key]) == ([], value)


@each(
    ("words", "kind"),
    [
        ("--training.nope=1", "unknown-key"),
        ("training.steps=4", "unknown-key"),
        ("--compile.enable=false", "value-not-convertible"),
        ("--training.steps=1e3", "value-not-convertible"),
        ("--activation_checkpoint.mode=op", "value-not-convertible"),
        ("--parallelism.tensor_parallel_degree=0", "value-out-of-range"),
    ],
)
def test_what_tyro_refuses(words, kind):
    (fault,) = trainer("torchtitan").load({"training": {}}, (words,)).faults
    assert (fault.kind, fault.argument.text) == (kind, words)


def test_values_of_other_types_are_not_read():
    words = ("--parallelism.module_fqns_per_model_part=a",)
    with pytest.raises(Unreadable, match="does not read"):
        trainer("torchtitan").load({}, words)
