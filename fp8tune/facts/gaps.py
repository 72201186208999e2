"""Explain what the estimates of memory and speed do not cover. No facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from fp8tune.job import Job, Unknown

ASKED = {
    "gpu": "--gpu h100",
    "world_size": "--world-size 16",
}
"""What the user can supply, and the option for it."""

_VLM = "vision-language models"
_TOKENS = "a vision encoder with a number of tokens that is known only after loading"

GAPS = {
    "vision_encoder.num_tokens": _TOKENS,
    "vlm_positions": _TOKENS,
    "vlm_visual_tokens": _TOKENS,
    "extra_parameters.encoder": "vision encoders other than the random one",
    "extra_parameters.frozen": "frozen parts other than the vision encoder",
    "block_copies": "MoMa blocks",
    "cross_blocks": "cross-attention without its interval",
    "block_tokens.packed": "the attention mask of packed sequences",
    "block_tokens.video": "the attention mask of video",
    "block_tokens.math": "the attention scores that the math backend keeps",
    "shards.cp": "context parallelism",
    "shards.product": "parallel degrees whose product is not the number of GPUs",
    "shards.hybrid": "replicas of sharded groups",
    "activation_bytes.norm": "activations without full AC if norms are not RMSNorm, or "
    "if queries and keys are normalised",
    "activation_bytes.split": "activations of compiled blocks under selective AC with "
    "tensor parallelism (AC none or full, or a run without compile, is covered)",
    "activation_bytes.activation": "activations of compiled blocks without full AC if "
    "the FFN is not gated",
    "activation_bytes.compiled": "activations of compiled blocks without full AC in "
    "mixtures of experts and vision-language models",
    "activation_bytes.budget": "activations with a memory budget",
    "activation_bytes.eager": "activations of eager blocks that are not computed again",
    "activation_bytes.full": "activations of this trainer other than with full AC and "
    "compiled blocks",
    "activation_bytes.described": "activations without full AC, of a trainer that only "
    "a file describes",
    "model.local": "layers that are not Transformer Engine's",
    "model.family": "models of this family: it covers Llama, Mistral, Qwen2, Qwen3, "
    "Mixtral and the MoE models of Qwen",
    "model.adapter": "LoRA, other adapters, frozen parts and quantized weights",
    "model.other": "reward models and preference training, which hold more than one "
    "model or other losses",
    "weights.norms": "weights in bf16 whose embedding and norms are in fp32, as they "
    "are here without flash attention",
    "activation_bytes.whole": "activations of a compiled model without full AC",
    "activation_bytes.scores": "attention that keeps its scores",
    "seq_len.generated": "training that generates its own samples",
    "logit_bytes.trl": "the logits of TRL's trainer, which only some releases build",
    "logit_bytes.fused": "losses that replace transformers' own, such as Liger's",
    "memory.parallel": "this kind of parallelism: it covers one GPU, DDP and FSDP",
    "memory.switch": "a switch of this trainer that changes what is held",
    "shards.strategy": "this sharding strategy: it covers FULL_SHARD",
    "shards.wrap": "FSDP that wraps anything but the model's blocks "
    "(TRANSFORMER_BASED_WRAP)",
    "speed.te": "Transformer Engine's linears in torchao's table of their speed",
    "speed.te_recipe": "the speed of Transformer Engine with this recipe: it covers "
    "delayed, current and block scaling",
    "memory.version": "releases of this trainer whose memory was not measured",
    "memory.strategy": "strategies other than fsdp2",
    "memory.degrees": "tensor, pipeline and context parallelism of this trainer",
    "memory.te": "FP8 by Transformer Engine in this trainer",
    "activation_bytes.selective": "activations under this trainer's selective AC",
    "activation_bytes.liger": "activations of Liger's kernels, which are used where "
    "they are installed: `model.use_liger_kernel: false` turns them off",
    "logit_bytes.loss": "losses other than MaskedCrossEntropy in fp32",
    "memory.trainer": "the memory of this trainer: it has no model of it",
    "precision": "this precision of the linears: it covers bf16 and FP8, not MXFP8, "
    "NVFP4 or emulated FP8",
    "compute_bytes": "fp16 and fp32 in this trainer: it covers bf16 and FP8",
    "optimizer_temporary_bytes": "the memory of this optimizer's step",
    "memory.offload": "the memory of this trainer with weights on the host",
    "memory.gathered": "weights that stay gathered after the forward pass",
    "logit_bytes.whole": "whole logits on each tensor-parallel rank",
    "speed.offload": "the speed of this trainer with weights on the host",
    "activation_bytes.unsharded": "the memory of this trainer without FSDP",
    "block_tokens.mask": "the mask of flex and varlen attention",
    "ffn_size.experts": "mixtures of experts without a dense FFN",
    "latent_attention": "latent attention",
    "memory.experts": "the memory of this trainer's mixtures of experts",
    "experts_grouped": "experts that no grouped product computes: before transformers "
    "5, or with another `experts_implementation` than grouped_mm",
    "stage_layers": "the memory of this trainer's pipelines, or of those whose "
    "stages are split by hand",
    "ffn_bytes": "ReLU",
    "logit_bytes": "this loss",
    "expert_bytes": "mixtures of experts in fp32",
    "optimizer_bytes": "this optimizer",
    "optimizer_bytes.lower": "optimizer state with dtypes of its own",
    "activation_bytes.modules": "these modules of selective recomputation",
    "moe_layer_freq": "a pattern of MoE layers that only Python can compute",
    "memory.last_stage": "the last pipeline stage, which has the logits",
    "gpu.memory_gib": "this GPU's memory, as torch reports it",
    "speed.vlm": _VLM,
    "speed.cp": "context parallelism",
    "speed.packed": "the speed of attention with the mask of packed sequences",
    "speed.math": "the speed of the math backend of attention",
    "speed.mask": "the speed of flex and varlen attention",
    "model.plain": "adapters and vision-language models",
    "grad_accum.packed": "the micro-batches of an RL step, whose number depends on its "
    "rollouts",
    "speed.trainer": "the speed of this trainer: too few runs of it are published with "
    "all their settings. Time some steps in bf16 and in FP8",
    "speed.experts": "the speed of mixtures of experts like this one",
    "speed.recipe": "the speed of the recipe rowwise_with_gw_hp, of which no run on "
    "these GPUs is published",
    "speed.step": "mixtures of experts and expert parallelism",
    "speed.bf16_seconds": "the speed of GPUs other than H100, H200, H800 and GH200",
    "speed.switched": "the speed of more than one GPU other than H100 SXM and H200, "
    "because no published run shows their communication",
    "speed.fp8_seconds": "the speed of FP8 without compile, or with the recipe "
    "rowwise_with_gw_hp",
    "precision.backend": "FP8 of another backend than torchao and Transformer "
    "Engine, or in a release that does not launch it",
    "precision.zero": "the precision of the Trainer under ZeRO",
    "speed.precision": "the speed of fp16 and fp32, because no published run shows it",
    "speed.optimizer": "the time of this optimizer's step",
    "speed.most_gpus": "the speed of so many GPUs: no published run of this engine has "
    "as many",
    "speed.hidden_size": "hidden sizes below 1024, where kernel launches dominate",
}
"""What is not covered, by the name that ``Unknown`` carries."""

NEEDED = {
    "model.unresolved": "the command has words that only a run resolves, which may be "
    "more of its settings: write them out",
    "model.elsewhere": "the sizes of the model stand in another file or in Python: "
    "name a model of the hub, or a folder with its `config.json`",
    "model.unnamed": "no file names the model: add --with FILE with "
    "`model_name_or_path` to the training arguments",
    "model.sizes": "the sizes of this model are not known: name a local folder that "
    "has its `config.json`, or a known model of the same sizes",
    "compile": "only the run knows whether the model is compiled",
    "vocab_size": "the size of the vocabulary depends on the tokenizer",
    "transformers": "FP8 depends on the release of transformers: pin it in a "
    "requirements or lock file beside the config, or read that of the run's Python: "
    "--installed, in a search --python PATH",
    "fp8_backend": "the file names no FP8 backend: name one, or read the packages of "
    "the run's Python: --installed, in a search --python PATH",
    "grad_accum.rest": "the batch of a step is no multiple of the micro-batches of all "
    "ranks: change it, the micro-batch or --world-size",
}
"""Facts that a user can give, and how, by the name that ``Unknown`` carries."""

INSTALLED = frozenset({"transformers", "fp8_backend"})
"""Those of them that the packages of the run's Python tell."""

UNSAID = "unsaid."
"""Beginning of fields, with commas, that the file of a user's trainer does not say."""

OTHER = "other."
"""Beginning of a field and its value, ``other.ac=block``, that is none of these."""

SETTING = "setting."
"""Beginning of a setting, as the trainer writes it, that no estimate covers."""

FEW = "few."
"""Beginning of a count and its value, ``few.grad_accum=0``, that is below 1."""

MEANT = {
    "precision": ("bf16", "fp8", "fp16", "fp32"),
    "ac": ("none", "full"),
    "fp8_recipe": ("tensorwise", "rowwise", "rowwise_with_gw_hp"),
}
"""The values of a field that fp8tune knows, for a trainer that a user describes."""


NO_WORDS: Mapping[str, str] = {}
"""The words of a trainer for what is missing, of no trainer."""


def of_trainer(name: str, title: str, advice: Mapping[str, str]) -> str:
    """What is not covered, with the trainer's name; empty if the name is of no gap."""
    return _advised(name, advice).replace("this trainer", title)


def _advised(name: str, advice: Mapping[str, str]) -> str:
    """What is not covered, and what the trainer's user can type to have it covered."""
    return ": ".join(filter(None, (_gap(name), advice.get(name))))


def _gap(name: str) -> str:
    """What is not covered, in words; empty if the name is of no gap."""
    if name.startswith(UNSAID):
        *fields, last = name.removeprefix(UNSAID).split(",")
        listed = f"{', '.join(f'`{field}`' for field in fields)} and " if fields else ""
        return f"[job] of the trainer's file does not say {listed}`{last}`"
    if name.startswith(OTHER):
        field, _, value = name.removeprefix(OTHER).partition("=")
        *most, last = MEANT[field]
        return (
            f'`{field}` is "{value}" here; fp8tune knows {", ".join(most)} and {last}: '
            "if it is one of them, write an expression in [job]"
        )
    if name.startswith(SETTING):
        return f"no estimate covers `{name.removeprefix(SETTING)}`"
    if name.startswith(FEW):
        field, _, value = name.removeprefix(FEW).partition("=")
        return f"`{field}` is {value} here, and it is at least 1 in a run"
    if name in NEEDED:
        return NEEDED[name]
    return f"no estimate covers {GAPS[name]}" if name in GAPS else ""


def why(
    missing: dict[str, str], fact: str, gpu: str, words: Mapping[str, str] = NO_WORDS
) -> str:
    """Why a fact is unknown, as ``: ...``; empty if it is known.

    ``words`` says what a trainer calls what is missing.
    """
    name = missing.get(fact, "")
    if name == "gpu":
        return f": add --gpu {one_of(gpu) or 'h100'}"
    if name in ASKED:
        return f": add {ASKED[name]}"
    if name == TOO_MUCH:
        return ": the run does not fit the GPU"
    if told := words.get(name) or _gap(name):
        return f": {told}"
    return f": `{name}` is unknown" if name else ""


TOO_MUCH = "memory.fit"
"""What the speed of a run that does not fit is missing."""


def is_gap(job: Job, name: str, what: str, advice: Mapping[str, str]) -> bool:
    """Whether an unknown fact keeps ``memory`` or ``speed`` from being checked.

    Memory is still checked if its lower bound is too much for the GPU. The ``advice``
    of a trainer has the words of gaps that only it has, ``FACT.CAUSE``.
    """
    if what == "memory":
        with suppress(Unknown):
            return not job["memory.fit"]
    return bool(_gap(name)) or ("." in name and name in advice)


_OUTSIDE = r"(\$\{?(\w+)\}?) is (?:argument|not set)"
"""A variable of a script that is set outside of it, and why it is unknown."""


def open_value(job: Job, key: str) -> str:
    """Say that only a run knows the value of a key in the file; empty if it is known.

    A script says where it takes the value of a flag from.
    """
    with suppress(Unknown):
        job[key]
        return ""
    reasons = job.find("unknown")
    said = str(reasons.get(key, "")) if isinstance(reasons, dict) else ""
    if variable := re.match(_OUTSIDE, said):
        more = "; lint and estimate also take the script's arguments behind `--`"
        return (
            f"`{key}` comes from `{variable[1]}`, which is not known before the run: "
            f"write its value, or a default: `${{{variable[2]}:-VALUE}}`"
            + more
            * variable[2].isdigit()
        )
    why = f" ({said})" * bool(said)
    return f"`{key}` is not known before the run{why}: write its value"


def reason(name: str, gpu: str, advice: Mapping[str, str]) -> str:
    """Why something cannot be checked, in words, with a trainer's advice."""
    several = one_of(gpu) if name == "gpu.memory_gib" else ""
    if several:
        return f"`{gpu}` may be {several}: name one with --gpu"
    return _advised(name, advice)


def beyond(names: Iterable[str]) -> str:
    """What a lower bound leaves out, in words."""
    words = dict.fromkeys(GAPS[name] for name in names if name in GAPS)
    return f"not counted: {'; '.join(words)}"


def one_of(gpu: str) -> str:
    """The GPUs that a family's name may mean, ``a or b``; ``""`` for one GPU."""
    from fp8tune.facts.gpus import find

    return " or ".join(find(gpu).members) if gpu else ""
