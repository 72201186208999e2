"""What Axolotl refuses of FP8, attention, sharding, compile and checkpointing.

Source: as ``checks.py``.
"""

from __future__ import annotations

from typing import Any

from fp8tune.trainers.axolotl.values import (
    Check,
    Refused,
    Values,
    fsdp_option,
    hoisted_version,
)

LEGACY_ATTENTION = {
    "xformers_attention": "xformers",
    "sage_attention": "sage",
    "flex_attention": "flex_attention",
    "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
"""Deprecated switches of attention, the one that counts first."""

ATTENTION = (
    *("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"),
    *("xformers", "sage", "fp8"),
)
NEWER_ATTENTION = ("flash_attention_4", "flash_attention_torch")
PACKING = (
    *("flash_attention_2", "flash_attention_3", "flex_attention", "xformers", "sage"),
    *("kernels-community/flash-attn2", "kernels-community/flash-attn3"),
    *("kernels-community/sage-attention", *NEWER_ATTENTION),
)
"""Kinds of attention that take packed sequences of any length."""

INDUCTOR = (
    *("coordinate_descent_tuning", "coordinate_descent_check_all_directions"),
    *("shape_padding", "epilogue_fusion", "max_autotune_gemm", "fx_graph_cache"),
    *("assume_aligned_inputs", "comprehensive_padding", "decompose_mem_bound_mm"),
    "triton.cudagraphs",
)
"""Options of torch.compile that Axolotl takes."""

REMOVED = (
    *("dpo_use_logits_to_keep", "dpo_generate_during_eval", "dpo_norm_loss"),
    "rpo_alpha",
)
REMOVED_SWITCHES = (
    *("max_packed_sequence_len", "rope_scaling", "s2_attention"),
    "flash_attn_rms_norm",
)
UNSLOTH = tuple(
    f"unsloth_{name}"
    for name in (
        *("cross_entropy_loss", "lora_mlp", "lora_qkv", "lora_o", "rms_norm", "rope"),
    )
)

CROSS_ENTROPY = (
    *("cut_cross_entropy", "chunked_cross_entropy", "liger_cross_entropy"),
    "liger_fused_linear_cross_entropy",
)


def attention(f: Values) -> Any:
    """The attention that is chosen, by its key or by a deprecated switch."""
    old = (impl for flag, impl in LEGACY_ATTENTION.items() if f[flag])
    default = "flash_attention_2" if f["gemma4_hybrid_attn_impl"] else None
    return f["attn_implementation"] or next(old, default)


def base(implementation: Any) -> str:
    """A kind of attention without its revision."""
    return str(implementation or "").split(":", 1)[0].split("@", 1)[0].strip()


def _unknown_attention(f: Values, newer: bool) -> bool:
    chosen = f["attn_implementation"]
    if chosen is None:
        return False
    known = ATTENTION + NEWER_ATTENTION if newer else ATTENTION
    return not isinstance(chosen, str) or (chosen not in known and "/" not in chosen)


def _recipe(f: Values) -> Any:
    inner = f["fp8_config"]
    default = "tensorwise"
    return inner.get("recipe", default) if isinstance(inner, dict) else default


def _set(name: str) -> Refused:
    """Whether a key has a value that Python takes for true."""
    return lambda f, _: f[name]


def _given(name: str) -> Refused:
    """Whether a key has a value."""
    return lambda f, _: f[name] is not None


MODEL = (
    Check(
        "fp8_config",
        "`fp8_config` needs `fp8: true`",
        lambda f, _: f["fp8_config"] is not None and not f["fp8"],
        "set `fp8: true`",
        only="0.19.0",
    ),
    Check(
        "fp8_enable_fsdp_float8_all_gather",
        "the FP8 all-gather is only for the recipe tensorwise",
        lambda f, _: (
            f["fp8_enable_fsdp_float8_all_gather"] and _recipe(f) != "tensorwise"
        ),
        "set it to false, or use the recipe tensorwise",
        only="0.19.0",
    ),
    Check(
        "fp8_enable_fsdp_float8_all_gather fsdp_version",
        "the FP8 all-gather needs `fsdp_version: 2` outside `fsdp_config`",
        lambda f, _: f["fp8_enable_fsdp_float8_all_gather"] and f["fsdp_version"] != 2,
        "write `fsdp_version: 2` above all tables",
    ),
    *(
        Check(name, "it has been removed", _set(name))
        for name in (*UNSLOTH, *REMOVED_SWITCHES)
    ),
    *(Check(name, "it has been removed", _given(name)) for name in REMOVED),
    Check(
        "scaling_softmax",
        "it needs `attn_implementation: flex_attention`",
        lambda f, v: v["scaling_softmax"] and attention(f) != "flex_attention",
    ),
    Check(
        "gradient_checkpointing_kwargs unfrozen_parameters",
        "a partly frozen model needs `use_reentrant: false`",
        lambda f, _: (
            f["unfrozen_parameters"]
            and f.table("gradient_checkpointing_kwargs")["use_reentrant"] is True
        ),
    ),
    Check(
        " ".join(CROSS_ENTROPY),
        "these exclude each other",
        lambda f, _: sum(bool(f[name]) for name in CROSS_ENTROPY) > 1,
    ),
    Check(
        "fsdp_config",
        "disabling `cpu_offload_pin_memory` needs FSDP2 and `offload_params: true`",
        lambda f, _: (
            f["fsdp_config"]
            and fsdp_option(f, "cpu_offload_pin_memory") is False
            and (str(hoisted_version(f)) != "2" or not fsdp_option(f, "offload_params"))
        ),
    ),
    Check(
        "deepcompile",
        "it needs DeepSpeed",
        lambda f, _: f["deepcompile"] and not f["deepspeed"],
    ),
    Check(
        "max_memory gpu_memory_limit",
        "`max_memory` and `gpu_memory_limit` exclude each other",
        lambda f, _: f["max_memory"] is not None and f["gpu_memory_limit"] is not None,
    ),
    Check(
        "deepspeed fsdp",
        "DeepSpeed and `fsdp` exclude each other",
        lambda f, _: f["deepspeed"] and f["fsdp"],
    ),
    Check(
        "model_quantization_config load_in_8bit load_in_4bit",
        "`model_quantization_config` excludes `load_in_8bit` and `load_in_4bit`",
        lambda f, _: (
            f["model_quantization_config"] and f.any("load_in_8bit", "load_in_4bit")
        ),
    ),
    Check(
        "fsdp base_model",
        "Falcon models exclude FSDP",
        lambda _, v: "falcon" in str(v["base_model"] or "").lower() and v["fsdp"],
    ),
    Check(
        "gradient_checkpointing base_model",
        "MPT models exclude gradient checkpointing",
        lambda _, v: (
            "mpt" in str(v["base_model"] or "").lower() and v["gradient_checkpointing"]
        ),
    ),
    Check(
        "gradient_checkpointing base_model",
        "Nemotron-H needs `sample_packing: true` for gradient checkpointing",
        lambda _, v: (
            "nemotron-h" in str(v["base_model"] or "").lower()
            and v["gradient_checkpointing"]
            and not v["sample_packing"]
        ),
        only="0.18.0",
    ),
    Check(
        "activation_offloading",
        "it needs `gradient_checkpointing`",
        lambda _, v: v["activation_offloading"] and not v["gradient_checkpointing"],
    ),
    Check(
        "selective_checkpointing",
        "it needs `gradient_checkpointing` with `use_reentrant: false`, and offloads"
        " nothing but hidden states",
        lambda f, v: (
            v["selective_checkpointing"]
            and (
                not v["gradient_checkpointing"]
                or f.table("gradient_checkpointing_kwargs")["use_reentrant"]
                or (v["activation_offloading"] or "hidden_states") != "hidden_states"
                or v["gradient_checkpointing"] in ("offload", "offload_disk")
            )
        ),
    ),
    Check(
        "flash_optimum",
        "BetterTransformer excludes mixed precision",
        lambda _, v: v["flash_optimum"] is True and v.any("fp16", "bf16"),
    ),
    Check(
        "revision_of_model gptq",
        "GPTQ models exclude a revision",
        lambda f, _: f["gptq"] and f["revision_of_model"],
    ),
    Check(
        "fsdp_config",
        "MXFP4 weights need `cpu_ram_efficient_loading: false`",
        lambda f, _: (
            f["model_quantization_config"] == "Mxfp4Config"
            and fsdp_option(f, "cpu_ram_efficient_loading") is True
        ),
    ),
    Check(
        "fsdp_config",
        "`SIZE_BASED_WRAP` needs `min_num_params`",
        lambda f, _: (
            fsdp_option(f, "auto_wrap_policy") == "SIZE_BASED_WRAP"
            and fsdp_option(f, "min_num_params") is None
        ),
    ),
    Check(
        "context_parallel_size attn_implementation",
        "context parallelism needs FlashAttention 2, and a batch of 1 with packing",
        lambda f, v: (
            (v["context_parallel_size"] or v["sequence_parallel_degree"] or 1) > 1
            and (
                base(attention(f)) not in ("flash_attention_2", "flash_attention_3")
                or (v["sample_packing"] and v["micro_batch_size"] > 1)
            )
        ),
    ),
    Check(
        "torch_compile ebft",
        "EBFT with `mode: strided` and gradient checkpointing excludes it",
        lambda f, _: (
            f["rl"] == "ebft"
            and f["torch_compile"] is True
            and f.table("ebft")["mode"] == "strided"
            and f["gradient_checkpointing"]
        ),
    ),
    Check(
        "attn_implementation",
        "deprecated switches of attention exclude it",
        lambda f, _: f["attn_implementation"] and f.any(*LEGACY_ATTENTION),
    ),
    Check(
        "attn_implementation gemma4_hybrid_attn_impl",
        "the hybrid attention of Gemma 4 needs flash_attention_2",
        lambda f, _: (
            f["gemma4_hybrid_attn_impl"]
            and f["attn_implementation"]
            and f["attn_implementation"] != "flash_attention_2"
        ),
    ),
    Check(
        "attn_implementation",
        f"it is one of {', '.join(ATTENTION)}, or a path of a kernel on the hub",
        lambda f, _: _unknown_attention(f, newer=False),
        only="0.18.0",
    ),
    Check(
        "attn_implementation",
        f"it is one of {', '.join(ATTENTION + NEWER_ATTENTION)}, or a path of a kernel"
        " on the hub",
        lambda f, _: _unknown_attention(f, newer=True),
        only="0.19.0",
    ),
    Check(
        "large_head_attention",
        "it is one of auto, sdpa, triton_flash",
        lambda f, _: (
            f["large_head_attention"] is not None
            and str(f["large_head_attention"]).lower()
            not in ("auto", "sdpa", "triton_flash")
        ),
    ),
    Check(
        "torch_compile_options",
        f"it takes {', '.join(INDUCTOR)}",
        lambda _, v: (
            v["torch_compile_options"] is not None
            and set(v["torch_compile_options"]) - set(INDUCTOR)
        ),
    ),
    Check(
        "torch_compile_options torch_compile",
        "it needs `torch_compile: true`",
        lambda _, v: v["torch_compile_options"] is not None and not v["torch_compile"],
    ),
    Check(
        "fp32_norms fsdp_version",
        "it needs FSDP2",
        lambda f, v: (
            v["fp32_norms"]
            and (v["fsdp_config"] is None or str(hoisted_version(f)) != "2")
        ),
    ),
    Check(
        "ple_cpu_offload",
        "it needs an adapter upon quantised weights, without FSDP and DeepSpeed",
        lambda f, _: (
            f["ple_cpu_offload"]
            and (
                f["fsdp_config"] is not None
                or f["fsdp"] is not None
                or f["deepspeed"]
                or not (
                    (f["adapter"] == "qlora" and f["load_in_4bit"])
                    or (f["adapter"] == "lora" and f["load_in_8bit"])
                )
            )
        ),
        only="0.19.0",
    ),
    Check(
        "save_safetensors",
        "transformers 5 saves nothing but safetensors",
        lambda _, v: v["save_safetensors"] is False,
    ),
)
