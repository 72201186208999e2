"""A Bridge file that says all settings has the memory of Megatron-LM's flags."""

import json

import pytest

from fp8tune.formats import parse
from fp8tune.job import Target, Unknown
from fp8tune.trainers.trainer import trainer
from tests.each import each

NAME = "Qwen3-30B-A3B, 16 H100"
MODEL = {
    "num_layers": 48,
    "hidden_size": 2048,
    "ffn_hidden_size": 6144,
    "num_attention_heads": 32,
    "num_query_groups": 4,
    "kv_channels": 128,
    "gated_linear_unit": True,
    "normalization": "RMSNorm",
    "qk_layernorm": True,
    "position_embedding_type": "rope",
    "vocab_size": 151936,
    "make_vocab_size_divisible_by": 128,
    "seq_length": 4096,
    "num_moe_experts": 128,
    "moe_ffn_hidden_size": 768,
    "moe_router_topk": 8,
    "moe_layer_freq": 1,
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 1,
    "context_parallel_size": 1,
    "expert_model_parallel_size": 16,
    "attention_backend": "auto",
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "cross_entropy_loss_fusion": True,
    "cross_entropy_fusion_impl": "te",
    "transformer_impl": "transformer_engine",
    "cuda_graph_impl": "none",
}
FALSE = (
    "add_bias_linear",
    "add_qkv_bias",
    "share_embeddings_and_output_weights",
    "should_pad_vocab",
    "multi_latent_attention",
    "is_hybrid_model",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "sequence_parallel",
    "distribute_saved_activations",
    "cpu_offloading",
    "fine_grained_activation_offloading",
)
NULL = (
    "moe_shared_expert_intermediate_size",
    "moe_expert_capacity_factor",
    "moe_latent_size",
    "mtp_num_layers",
    "experimental_attention_variant",
    "expert_tensor_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "num_layers_in_first_pipeline_stage",
    "num_layers_in_last_pipeline_stage",
    "pipeline_model_parallel_layout",
    "recompute_granularity",
    "recompute_modules",
    "recompute_method",
    "recompute_num_layers",
)
REST = {
    "train": {"micro_batch_size": 1, "global_batch_size": 1024},
    "optimizer": {
        "optimizer": "adam",
        "use_precision_aware_optimizer": False,
        "optimizer_cpu_offload": False,
    },
    "ddp": {
        "use_distributed_optimizer": True,
        "num_distributed_optimizer_instances": 1,
    },
    "dist": {"use_megatron_fsdp": False, "use_torch_fsdp2": False},
    "mixed_precision": "bf16_mixed",
}


def job_of(config):
    known = trainer("megatron_bridge")
    text = json.dumps(config)  # JSON is YAML
    loaded = known.load(parse(text.encode(), "run.yaml").values)
    return known.job(loaded, Target(gpu="h100", world_size=16))


def whole(**changes):
    model = MODEL | dict.fromkeys(FALSE, False) | dict.fromkeys(NULL)
    return {"model": model, **REST, **changes}


@each(
    ("backend", "keeps"),
    [("auto", False), ("unfused", True), ({"_args_": [3]}, True), ({}, False)],
)
def test_scores_by_the_backend_of_attention(backend, keeps):
    config = whole()
    config["model"]["attention_backend"] = backend
    assert job_of(config)["keeps_scores"] == keeps


@each(
    ("settings", "reduces"),
    [
        ({"proj_fprop": {"fp8_buf": True}}, True),
        ({"proj_fprop": {"fp8_buf": False}}, False),
        (None, False),
    ],
)
def test_the_overlap_of_tensor_parallelism_may_reduce_in_fp8(settings, reduces):
    config = whole()
    config["model"]["tp_comm_overlap_cfg"] = settings
    assert job_of(config)["speed.fp8_reduces"] == reduces


def test_fp8_by_the_name_of_a_mixed_precision():
    fp8 = job_of(whole(mixed_precision="bf16_with_fp8_current_scaling_mixed"))
    names = ("estimate_family", "bf16_ends", "fp8_weight_bytes", "fp8.pays")
    found = {name: fp8.find(name) for name in names}
    assert found == {
        "estimate_family": "fp8",
        "bf16_ends": (1, 1),
        "fp8_weight_bytes": 0,
        "fp8.pays": "no",
    }


def test_what_a_recipe_says_is_not_known(fp8tune, project):
    project({"a.yaml": "train: {micro_batch_size: 1}\nmixed_precision: bf16_mixed\n"})
    said = fp8tune("estimate", "a.yaml", "--trainer", "megatron_bridge").out
    assert "memory: unknown: only the recipe, which is Python, has the sizes of" in said


def test_lora_has_the_published_gain_and_no_estimate_of_memory():
    """1.353 of Llama 3 8B on 8 H100, dgxc-benchmarking v25.04.02, ft_llama3."""
    config = whole(
        mixed_precision="bf16_with_fp8_delayed_scaling_mixed",
        peft={"_target_": "megatron.bridge.peft.lora.LoRA"},
    )
    dense = {"num_moe_experts": None, "qk_layernorm": False, "kv_channels": 128}
    config["model"] |= dense | {
        "num_layers": 32,
        "hidden_size": 4096,
        "ffn_hidden_size": 14336,
        "num_query_groups": 8,
        "vocab_size": 128256,
        "expert_model_parallel_size": 1,
    }
    config["train"] |= {"global_batch_size": 64}
    lora = job_of(config)
    assert lora["speed.fp8_gain_low"] < 1.353 < lora["speed.fp8_gain_high"]
    with pytest.raises(Unknown, match=r"model\.adapter"):
        _ = lora["memory.peak_gib"]
