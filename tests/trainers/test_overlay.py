"""Arguments behind a config, as LLaMA-Factory, NeMo Automodel and Axolotl read them.

The values are those of OmegaConf 2.3.1, of Automodel's ``translate_value`` (36044ad3d)
and of Fire 0.7.1 with Axolotl's ``_coerce_value`` (0.18.0).
"""

import re

import pytest

from fp8tune.formats.document import HOLE, Unreadable
from fp8tune.trainers.axolotl.command_line import _value
from fp8tune.trainers.trainer import trainer
from tests.each import each

RECIPE = {
    "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
    "step_scheduler": {"local_batch_size": 8, "max_steps": 5},
}
FACTORY = {"stage": "sft", "bf16": "yes", "fp8": True, "cutoff_len": 8}
AXOLOTL = {"base_model": "m", "micro_batch_size": 1, "gradient_accumulation_steps": 1}
AXOLOTL |= {"learning_rate": 0.1, "bf16": True}


def loaded(name, raw, words):
    return trainer(name).load(raw, tuple(words.split()))


@each(
    ("name", "raw", "words", "values"),
    [
        ("llamafactory", FACTORY, "bf16=true", {"bf16": True}),
        ("llamafactory", FACTORY, "learning_rate=1e-5", {"learning_rate": 1e-5}),
        ("llamafactory", FACTORY, "cutoff_len=1 cutoff_len=2", {"cutoff_len": 2}),
        (
            "automodel",
            RECIPE,
            "--step_scheduler.local_batch_size=2 --fp8.enabled skipped --x 1",
            {"step_scheduler.local_batch_size": 2, "fp8.enabled": True},
        ),
        (
            "automodel",
            RECIPE,
            "--fp8.enabled --fp8.filter_fqns ['lm_head'] --fp8.recipe_name none",
            {"fp8.filter_fqns": ["lm_head"], "fp8.recipe_name": None},
        ),
        (
            "axolotl",
            AXOLOTL,
            "--fsdp-config.fsdp-version 2 --no-fsdp-config.offload-params",
            {"fsdp_config.fsdp_version": 2, "fsdp_config.offload_params": False},
        ),
        ("axolotl", AXOLOTL | {"strict": True}, "--fp8", {"fp8": None}),
    ],
)
def test_arguments_go_before_the_file(name, raw, words, values):
    found = loaded(name, raw, words).values
    assert {key: found[key] for key in values} == values


@each(
    ("there", "text", "value"),
    [
        (None, "1e-5", 1e-5),
        (None, "YES", True),
        (True, "1", 1),
        (True, "on", False),
        (3, "08", 8),
        (0.5, "nan", "nan"),
        ("s", "true", "true"),
        (None, "'" + "x" * 2000, "'" + "x" * 2000),
    ],
)
def test_a_text_of_axolotl(there, text, value):
    found = _value(text, {"key": there}, ("key",))
    if text == "nan":
        assert repr(found) == "nan"
    else:
        assert (found, type(found)) == (value, type(value))


@each(
    ("name", "raw", "words", "unknown", "known"),
    [
        (
            "llamafactory",
            FACTORY,
            f"bf16={HOLE} learning_rate=1e-{HOLE}",
            ("bf16", "learning_rate"),
            "cutoff_len",
        ),
        (
            "automodel",
            RECIPE,
            f"--step_scheduler.local_batch_size {HOLE}",
            ("step_scheduler.local_batch_size",),
            "step_scheduler.max_steps",
        ),
        (
            "automodel",
            RECIPE,
            f"--step_scheduler._target_ {HOLE}",
            ("step_scheduler.max_steps",),
            "recipe",
        ),
        (
            "axolotl",
            AXOLOTL,
            f"--fsdp-config.fsdp-version {HOLE} --learning-rate {HOLE}",
            ("fsdp_config", "fsdp_config.fsdp_version", "learning_rate"),
            "micro_batch_size",
        ),
    ],
)
def test_what_only_a_run_knows_is_unknown(name, raw, words, unknown, known):
    found = loaded(name, raw, words)
    gone = found.values.keys() & set(unknown)
    assert (gone, known in found.values, found.faults) == (set(), True, [])


def test_a_fault_knows_its_argument():
    found = loaded("llamafactory", FACTORY | {"bf16": True}, "quantisation=4")
    fault = next(fault for fault in found.faults if fault.path == ("quantisation",))
    text, key, value = fault.argument
    assert (text[slice(*key)], text[slice(*value)]) == ("quantisation", "4")


@each(
    ("name", "words", "reason"),
    [
        ("llamafactory", "a=[1", "does not read this argument: [1"),
        ("llamafactory", "stage.x=1", "the file has no table to set stage.x in"),
        (
            "axolotl",
            "--no-bf16",
            "does not follow this argument: --no-bf16",
        ),  # or "auto"
        ("axolotl", "--micro-batchsize 2", "does not follow this argument: --micro-b"),
        ("axolotl", "--fp8=true", "takes no value in --fp8=true: write --fp8 or --no"),
        ("axolotl", "--launcher python", "leave it out"),
        ("deepspeed", "--x 1", "the command line of DeepSpeed"),
        ("megatron_bridge", "x=1", "leave out overrides"),
    ],
)
def test_arguments_that_are_not_followed(name, words, reason):
    with pytest.raises(Unreadable, match=re.escape(reason)):
        loaded(name, {"stage": "sft"}, words)
