"""What an estimate does not cover, in words."""

from __future__ import annotations

ASKED = {
    "gpu": "--gpu h100",
    "world_size": "--world-size 16",
}
"""What the user can say, and how."""

_VLM = "vision-language models"

WORDS = {
    "attention_passes": _VLM,
    "gemms": _VLM,
    "vlm_positions": _VLM,
    "vlm_visual_tokens": _VLM,
    "extra_parameters": "vision encoders other than the random one, or other frozen "
    "parts",
    "block_copies": "MoMa blocks",
    "cross_blocks": "cross-attention without its interval",
    "block_tokens": "attention with an explicit mask",
    "shards": "context parallelism, and replicas of sharded groups",
    "activation_bytes.norm": "what blocks keep without full AC if their norms are "
    "others than RMSNorm, or queries and keys are normalised",
    "activation_bytes.split": "what compiled blocks keep under selective AC with "
    "tensor parallelism; AC none and full have a figure, and so have runs without "
    "compile",
    "activation_bytes.activation": "what compiled blocks keep without full AC if their "
    "FFN is not gated",
    "activation_bytes.compiled": "what compiled blocks of mixtures of experts and "
    "vision-language models keep without full AC",
    "ffn_bytes": "ReLU",
    "logit_bytes": "this loss",
    "expert_bytes": "mixtures of experts in fp32",
    "optimizer_bytes": "this optimizer",
    "memory.fit": "the last pipeline stage, which has the logits",
    "gpu.memory_gib": "what torch sees of this GPU's memory",
    "speed.step": "mixtures of experts and expert parallelism",
    "speed.bf16_seconds": "other GPUs than Hopper of 700 TFLOPS and more",
    "speed.switched": "the speed of several GPUs but H100 SXM and H200, of which no "
    "published run shows what they lose to communication",
    "speed.fp8_seconds": "FP8 without compile",
    "speed.precision": "the speed of fp16 and fp32, which no published run shows",
    "speed.optimizer": "the time of this optimizer's step",
    "speed.most_gpus": "the speed of more than 512 GPUs, which no published run shows",
    "speed.hidden_size": "hidden sizes below 1024, where launches dominate",
}


def why(missing: dict[str, str], fact: str, gpu: str) -> str:
    """Why a fact is not known: ``: ...``, or nothing if it is."""
    name = missing.get(fact, "")
    if name == "gpu":
        return f": say --gpu {' or '.join(_members(gpu)) or 'h100'}"
    if name in ASKED:
        return f": say {ASKED[name]}"
    if name in WORDS:
        return f": not covered: {WORDS[name]}"
    return f": `{name}` is not known" if name else ""


def _members(gpu: str) -> tuple[str, ...]:
    from fp8tune.facts.gpus import find

    return find(gpu).members if gpu else ()
