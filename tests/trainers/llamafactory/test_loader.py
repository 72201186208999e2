"""What the loader says of a LLaMA-Factory config."""

import json

import pytest

from fp8tune.trainers.trainer import trainer
from tests.each import each

START = {"model_name_or_path": "a/b", "do_train": True, "dataset": "x"}


def faults(version="0.9.5", **more):
    loaded = trainer(f"llamafactory=={version}").load(START | more)
    return [(fault.kind, fault.facts["key"]) for fault in loaded.faults]


@each(
    ("more", "expected"),
    [
        ({"finetuning_type": "full", "fp8": "false"}, [("read-as-true", "fp8")]),
        ({"learning_rate": "5e-5"}, [("not-converted", "learning_rate")]),
        ({"fp8_recipe": "x"}, [("unknown-key", "fp8_recipe")]),
        ({"save_safetensors": True}, [("key-of-one-release", "save_safetensors")]),
        ({"pref_loss": "dpo"}, [("not-listed", "pref_loss")]),
        ({"fp8_backend": "rowwise"}, []),
        (
            {"warmup_steps": "x"},
            [("not-converted", "warmup_steps"), ("refused-settings", "warmup_steps")],
        ),
    ],
)
def test_faults(more, expected):
    assert faults(**more) == expected


CONFIG = """\
model_name_or_path: a/b
stage: sft
do_train: true
finetuning_type: full
dataset: x
bf16: true
save_safetensors: true
"""


@pytest.mark.parametrize(
    ("requirements", "rule"),
    [
        ("transformers==4.57.6", []),
        ("transformers<6", ["key-of-one-release"]),
        ("transformers", ["key-of-one-release"]),
        ("transformers==5.6.0", ["refused-settings"]),
    ],
)
def test_a_key_of_one_release_of_transformers(project, fp8tune, requirements, rule):
    project({"sft.yaml": CONFIG, "requirements.txt": f"{requirements}\n"})
    select = "key-of-one-release,refused-settings"
    ran = fp8tune("lint", "sft.yaml", "--select", select, "--output-format", "json")
    reported = json.loads(ran.out)["diagnostics"]
    assert [each["rule"] for each in reported] == rule
