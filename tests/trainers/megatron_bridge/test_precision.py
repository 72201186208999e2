"""Where FP8 is on, and where the recipe decides that."""

import tomllib

import yaml

from fp8tune.job import Target
from fp8tune.trainers.about import path_of
from fp8tune.trainers.megatron_bridge.job import MOST_IN_BF16
from fp8tune.trainers.trainer import trainer
from tests.each import each

CURRENT = "mixed_precision: bf16_with_fp8_current_scaling_mixed\n"
CLASS = "_target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig"
MAPPING = f"mixed_precision:\n  {CLASS}\n  bf16: true\n  fp16: false\n  fp8: hybrid\n"
BRIDGE = trainer("megatron_bridge")


@each(
    ("text", "precision"),
    [
        (CURRENT, "fp8"),
        # GPTModelProvider does not read it, GPTModelConfig does
        (CURRENT + "model:\n  transformer_impl: local\n", None),
        (CURRENT + "model:\n  num_layers: 2\n", "bf16"),
        ("mixed_precision: bf16_mixed\n", "bf16"),
        (MAPPING, "fp8"),
        # the recipe's mixed precision may keep both ends in bf16
        (MAPPING + "model:\n  num_layers: 4\n", None),
        (MAPPING + "model:\n  num_layers: 5\n", "fp8"),
    ],
)
def test_precision(text, precision):
    loaded = BRIDGE.load(yaml.safe_load(text))
    assert BRIDGE.job(loaded, Target()).find("precision") == precision


def test_no_fp8_recipe_keeps_more_layers_in_bf16():
    ends = "num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"
    with open(path_of("megatron_bridge", "recipes.toml"), "rb") as file:
        recipes = tomllib.load(file).values()
    kept = [
        sum(fields.get(end, 0) for end in ends) for fields in recipes if "fp8" in fields
    ]
    assert max(kept) == MOST_IN_BF16
