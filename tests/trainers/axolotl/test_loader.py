"""What the loader says of an Axolotl config."""

import pytest

from fp8tune.trainers.trainer import trainer
from tests.each import each

START = {
    "base_model": "a/b",
    "datasets": [{"path": "x", "type": "alpaca"}],
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "learning_rate": "1e-5",
}
LIGER = ["axolotl.integrations.liger.LigerPlugin"]


def faults(version="0.19.0", **more):
    loaded = trainer(f"axolotl=={version}").load(START | more)
    return [(fault.kind, fault.facts["key"]) for fault in loaded.faults]


@each(
    ("more", "expected"),
    [
        ({}, []),
        ({"fp8": "on", "sequence_len": "2048", "val_set_size": 0.05}, []),
        ({"fp8_enabled": True}, [("ignored-key", "fp8_enabled")]),
        ({"fp8_enabled": None}, []),
        ({"liger_rope": True}, [("ignored-key", "liger_rope")]),
        ({"plugins": LIGER, "liger_rope": True}, []),
        ({"plugins": ["mine.Plugin"], "anything": True}, []),
        ({"fsdp_config": {"fsdp_offload_params": True}}, []),
        ({"fsdp_config": {"limit": 1}}, [("ignored-key", "fsdp_config.limit")]),
        ({"fp8": "maybe"}, [("value-not-convertible", "fp8")]),
        ({"fp8_config": {"recipe": "rowwise"}}, [("refused-settings", "fp8_config")]),
        (
            {"fp8": True, "fp8_config": {"recipe": "block"}},
            [("value-not-allowed", "fp8_config.recipe")],
        ),
        (
            {"fp8": True, "fp8_config": {"recipes": "rowwise"}},
            [("unknown-key", "fp8_config.recipes")],
        ),
        (
            {"datasets": [{"path": "x", "type": "alpaca", "train_on_split": "a"}]},
            [("ignored-key", "datasets[0].train_on_split")],
        ),
        ({"datasets": []}, [("wrong-type", "datasets")]),
        ({"micro_batch_size": True}, [("boolean-for-number", "micro_batch_size")]),
        ({"learning_rate": "fast"}, [("refused-settings", "learning_rate")]),
    ],
)
def test_faults(more, expected):
    assert faults(**more) == expected


@pytest.mark.parametrize("version", ["0.18.0", "0.19.0"])
def test_a_plain_config_is_accepted(version):
    assert faults(version) == []


def test_recipes_came_with_0_19():
    more = {"fp8": True, "fp8_config": {"recipe": "rowwise"}}
    assert (faults(**more), faults("0.18.0", **more)) == (
        [],
        [("ignored-key", "fp8_config")],
    )
