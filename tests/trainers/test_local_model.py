"""What the config.json of a model says."""

import json

import pytest

from fp8tune.job import Unknown
from fp8tune.trainers.local_model import local_config, model_experts, model_family
from tests.each import each

QWEN = {"model_type": "qwen3_moe", "num_experts": 128}


@each(
    ("config", "expected"),
    [
        (QWEN, ("qwen3_moe", 128)),
        ({"model_type": "llama4", "text_config": QWEN}, ("qwen3_moe", 128)),
    ],
)
def test_family_and_experts(config, expected, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    read = local_config(str(tmp_path))
    assert (model_family(read), model_experts(read)) == expected


@each("text", ["", "[1]", "{", "[" * 100_000, " " * 2**21])
def test_what_is_no_config_is_unknown(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(Unknown):
        local_config(str(tmp_path))


def test_a_model_of_the_hub_is_not_looked_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unknown):
        local_config("nobody/nothing")
