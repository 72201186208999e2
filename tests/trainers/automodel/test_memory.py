"""Automodel's memory against its own recipe, and what no estimate covers."""

import json

import pytest
import yaml

from fp8tune.job import Target, Unknown
from fp8tune.trainers.trainer import trainer
from tests.each import each

LOSSES = "nemo_automodel.components.loss."
RECIPE = {
    "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
    "step_scheduler": {"global_batch_size": 32, "local_batch_size": 1},
    "model": {
        "_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
        "pretrained_model_name_or_path": "meta-llama/Llama-3.1-8B",
    },
    "distributed": {"strategy": "fsdp2", "enable_compile": True},
    "fp8": {
        "enabled": True,
        "recipe_name": "tensorwise",
        "enable_fsdp_float8_all_gather": True,
        "precompute_float8_dynamic_scale_for_fsdp": True,
        "filter_fqns": ["lm_head"],
    },
    "loss_fn": {"_target_": LOSSES + "masked_ce.MaskedCrossEntropy"},
    "packed_sequence": {"packed_sequence_size": 8192},
    "optimizer": {"_target_": "torch.optim.Adam", "weight_decay": 0},
}
"""As Automodel's ``llama3_1_8b_hellaswag_fp8.yaml``, with layers that are compiled."""


def job(ranks=8, version="0.5.0", **sections):
    """The job of the recipe, with these sections laid over its own."""
    raw = yaml.safe_load(yaml.safe_dump(RECIPE))
    for name, values in sections.items():
        laid = isinstance(values, dict)
        raw[name] = raw.get(name, {}) | values if laid else values
    known = trainer(f"automodel=={version}")
    return known.job(known.load(raw), Target("h100", ranks))


@pytest.mark.parametrize("ep", [1, 8])
def test_a_mixture_of_experts_needs_at_least_its_weights_gradients_and_moments(ep):
    """30.53 B parameters in bf16, gradients and two moments on 8 GPUs; workspaces."""
    found = job(
        model={
            "pretrained_model_name_or_path": "Qwen/Qwen3-30B-A3B",
            "torch_dtype": "bf16",
        },
        distributed={"ep_size": ep, "enable_compile": False},
    )
    assert found["memory.least_peak_gib"] == pytest.approx(28.44 + 64 / 1024, abs=0.01)
    with pytest.raises(Unknown, match=r"memory\.experts"):
        found["memory.peak_gib"]


def test_a_mixture_of_experts_that_cannot_fit_is_out_of_memory():
    model = {
        "pretrained_model_name_or_path": "Qwen/Qwen3-235B-A22B",
        "torch_dtype": "bf16",
    }
    verdicts = [
        job(ranks, model=model, distributed={"ep_size": 8}).find("memory.fit")
        for ranks in (16, 64)
    ]
    assert verdicts == ["out-of-memory", None]


def test_the_published_gain_is_in_the_range():
    """1.24 of Llama 3.1 8B on 8 H100, 8k, tensorwise (docs/guides/fp8-training.mdx)."""
    found = job()
    assert found["speed.fp8_gain_low"] <= 1.24 <= found["speed.fp8_gain_high"]
    assert found["speed.fp8_gain"] == pytest.approx(1.24, abs=0.03)
    assert found["fp8.pays"] == "yes"
    assert found.find("speed.tokens_per_second") is None


@each(
    ("sections", "missing"),
    [
        ({"peft": {"dim": 8}}, "model.adapter"),
        ({"distributed": {"strategy": "ddp"}}, "memory.strategy"),
        ({"distributed": {"dp_replicate_size": 2}}, "shards.hybrid"),
        ({"distributed": {"mp_policy": {"_target_": "x"}}}, "memory.policy"),
        ({"distributed": {"reshard_after_forward": False}}, "memory.gathered"),
        (
            {"distributed": {"activation_checkpointing": "selective"}},
            "activation_bytes.selective",
        ),
        ({"optimizer": {"_target_": "dion.Muon"}}, "optimizer_bytes"),
        (
            {
                "model": {"pretrained_model_name_or_path": "mistralai/Mistral-7B-v0.3"},
                "distributed": {"enable_compile": False},
            },
            "activation_bytes.liger",
        ),
        ({"distributed": {"defer_fsdp_grad_sync": False}}, "memory.policy"),
        ({"model": {"config": {"num_hidden_layers": 2}}}, "model.elsewhere"),
    ],
)
def test_what_no_estimate_covers_is_named(sections, missing):
    with pytest.raises(Unknown) as error:
        _ = job(**sections)["memory.peak_gib"]
    assert error.value.args[0] == missing


def test_what_is_known_is_a_lower_bound():
    whole = job()["memory.peak_gib"]
    fused = {"_target_": LOSSES + "linear_ce.FusedLinearCrossEntropy"}
    selective = {"activation_checkpointing": "selective"}
    for part in (job(loss_fn=fused), job(distributed=selective)):
        assert part["memory.state_gib"] < part["memory.least_gib"] < whole


TINY = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 4096,
}
FROM_CONFIG = "nemo_automodel.NeMoAutoModelForCausalLM.from_config"


def test_a_config_that_is_written_out_is_a_folder_of_the_same_sizes(tmp_path):
    config = TINY | {"_target_": "transformers.LlamaConfig"}
    written = job(model={"config": config})
    text = json.dumps(TINY | {"model_type": "llama", "dtype": "float32"})
    (tmp_path / "config.json").write_text(text)
    folder = job(model={"pretrained_model_name_or_path": str(tmp_path)})
    assert written["sizes"] == folder["sizes"]
    assert folder["weight_bytes"] == 4


@each(
    ("model", "ranks", "bytes_each"),
    [
        ({}, 8, (2, 2, "bf16")),
        ({"torch_dtype": "float32"}, 8, (4, 2, "bf16")),
        ({"torch_dtype": "torch.float32"}, 1, (4, 4, "fp32")),
        ({"torch_dtype": "bf16"}, 1, (2, 2, "bf16")),
        (
            {
                "_target_": FROM_CONFIG,
                "pretrained_model_name_or_path": None,
                "config": TINY | {"_target_": "transformers.Qwen2Config"},
            },
            1,
            (2, 2, "bf16"),
        ),
    ],
)
def test_fsdp_casts_the_weights_and_one_gpu_does_not(model, ranks, bytes_each):
    found = job(ranks, model=model, fp8={"enabled": False})
    names = ("weight_bytes", "compute_bytes", "precision")
    assert tuple(found[name] for name in names) == bytes_each
