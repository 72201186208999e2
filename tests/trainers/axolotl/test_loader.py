"""What the loader says of an Axolotl config."""

from fp8tune.trainers.trainer import trainer
from tests.each import each

START = {
    "base_model": "a/b",
    "datasets": [{"path": "x", "type": "alpaca"}],
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "learning_rate": "1e-5",
}


def faults(version="0.19.0", **more):
    loaded = trainer(f"axolotl=={version}").load(START | more)
    return [(fault.kind, fault.facts["key"]) for fault in loaded.faults]


@each(
    ("more", "expected"),
    [
        ({"fp8": "on", "sequence_len": "2048", "val_set_size": 0.05}, []),
        ({"fp8_enabled": True}, [("ignored-key", "fp8_enabled")]),
        ({"liger_rope": True}, [("ignored-key", "liger_rope")]),
        ({"plugins": ["mine.Plugin"], "anything": True}, []),
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
    ],
)
def test_faults(more, expected):
    assert faults(**more) == expected


def test_recipes_came_with_0_19():
    more = {"fp8": True, "fp8_config": {"recipe": "rowwise"}}
    assert (faults(**more), faults("0.18.0", **more)) == (
        [],
        [("ignored-key", "fp8_config")],
    )
