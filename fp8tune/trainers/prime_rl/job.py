"""A prime-rl config as a job: what its keys mean beyond their values.

Every public function is a field of the job or a fact of this trainer; its parameters
name what it reads. Names like ``model_name`` or ``quantization`` are keys that
``[job]`` of each schema maps, as SFT and RL files have them in different tables. A
parameter with a default is a key that some files do not have.

Source: prime-rl 0.8.1.dev67, trainer/model.py, parallel_dims.py, sft/train.py.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from fp8tune.job import Job, Unknown, Words, known, ranks_left
from fp8tune.trainers.about import read_toml
from fp8tune.trainers.local_model import published

BLOCK = {"fp8": 128, "mxfp8": 32}
"""What K and N of a linear must be a multiple of, by kind of quantization."""

LAUNCHED = ("data", "val", "renderer", "deployment", "run", "slurm", "orchestrator")
"""Tables of SFT and RL files that the trainer alone does not read as they do."""

NAMES = {
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "o_proj": "self_attn.o_proj",
    "gate_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "down_proj": "mlp.down_proj",
}
"""The linears of a dense block with their names in Hugging Face's models."""


def is_run() -> bool:
    """Whether the file describes a run: always."""
    return True


def command_is_sure(job: Job) -> bool:
    """Whether the file has a table that the trainer of an RL run does not read.

    Without one a file may be for ``sft`` or for ``trainer``.
    """
    return any(key.partition(".")[0] in LAUNCHED for key in job.written)


def sizes(model_name: str) -> dict[str, Any]:
    """Sizes of the model; unknown for those that no table has."""
    return known("model.sizes", published(model_name))


def plain_model(vlm: Any = None, lora: Any = None) -> bool:
    """Whether all weights of a language model are trained; unknown for others."""
    return known("model.plain", True if vlm is None and lora is None else None)


def layers(sizes: dict[str, Any], num_layers: int | None = None) -> int:
    """Transformer blocks; a debugging key may cut some off."""
    return int(sizes["layers"] if num_layers is None else num_layers)


def dense_ffn_layers(layers: int, experts: int) -> int:
    """Blocks with a dense FFN."""
    return 0 if experts else layers


def micro_batch() -> int:
    """Sequences per micro-batch: RL packs samples into one row of ``seq_len``."""
    return 1


def dp_replicate(
    replicas: int, train_nodes: int | None = None, fsdp_nodes: int | None = None
) -> int:
    """Replicas of the sharded group; the launcher sets them from groups of nodes."""
    if train_nodes and fsdp_nodes:
        return train_nodes // fsdp_nodes
    return replicas


def dp_shard(
    dp_replicate: int,
    cp: int,
    world_size: int | None = None,
    declared_gpus: int | None = None,
) -> int:
    """FSDP shards: all ranks that replicas and CP leave (parallel_dims.py).

    Unknown if ``[deployment]`` gives the trainer another number of GPUs.
    """
    if world_size is not None and declared_gpus not in (None, world_size):
        raise Unknown("shards.deployment")
    return ranks_left(world_size, dp_replicate, cp)


def declared_gpus(job: Job) -> int:
    """Number of GPUs of the trainer, where ``[deployment]`` says it."""
    nodes, gpus = job.find("train_nodes"), job.find("train_gpus")
    if job.writes("train_nodes") and nodes:
        return int(nodes * job["node_gpus"])
    if job.writes("train_gpus") and gpus:
        return int(gpus)
    raise Unknown("declared_gpus")


def sharded() -> bool:
    """Whether FSDP wraps the model: always, on one GPU too."""
    return True


def ep(experts: int, dp_shard: int, cp: int, experts_parallel: Any) -> int:
    """Expert-parallel degree: of MoE models, by default up to 8 (model.py)."""
    if not experts:
        return 1
    return min(dp_shard * cp, 8) if experts_parallel == "auto" else experts_parallel


def global_batch(batch: int | None = None) -> int:
    """Sequences per step of SFT; an RL step has as many as its rollouts fill."""
    return known("grad_accum.packed", batch)


def batch_rest(global_batch: int, micro_batch: int, dp_ranks: int) -> int:
    """Sequences of a step that are no whole micro-batch of every rank."""
    return global_batch % (micro_batch * dp_ranks)


def grad_accum(
    global_batch: int, micro_batch: int, dp_ranks: int, batch_rest: int
) -> int:
    """Micro-batches per optimizer step."""
    if batch_rest:
        raise Unknown("grad_accum.rest")
    return global_batch // (micro_batch * dp_ranks)


def compile(compiled: Any = None) -> bool:  # noqa: A001
    """Whether each block is compiled."""
    return compiled is not None


def ac(
    ac_table: Any = None,
    ac_mode: str = "full",
    ac_freq: int = 1,
    ac_offload: Any = None,
) -> str:
    """AC mode; ``every-2`` wraps each second block. Offloading turns full AC on."""
    if ac_table is None:
        return Words("none" if ac_offload is None else "full")
    if ac_mode == "full" and ac_freq > 1:
        return Words(f"every-{ac_freq}")
    return Words(ac_mode)


def ac_is_null(ac_table: Any = None) -> bool:
    """Whether the file turns AC off."""
    return ac_table is None


def ac_modes() -> tuple[str, ...]:
    """AC modes that wrap some module, including none."""
    return ("none", "selective", "full")


def weight_bytes(optimization_dtype: str) -> int:
    """Bytes per parameter of the sharded weights."""
    return 4 if optimization_dtype == "float32" else 2


def compute_bytes() -> int:
    """Bytes of a value in compute and all-gather: FSDP computes in bf16."""
    return 2


def quantized(quantization: Any = None, quantization_kind: str = "") -> str:
    """The kind of quantization: fp8, mxfp8, or ``""`` for none."""
    return Words(quantization_kind if quantization else "")


def mxfp8(quantized: str) -> bool:
    """Whether linears compute in MXFP8."""
    return quantized == "mxfp8"


def precision(quantized: str) -> str:
    """Precision of the linears; unknown with MXFP8."""
    if quantized == "mxfp8":
        raise Unknown("precision")
    return Words(quantized or "bf16")


def fp8_recipe(quantized: str) -> str:
    """Scaling of the FP8 linears: blocks of 128, which torchao has no recipe for."""
    return Words("blockwise" if quantized == "fp8" else "")


def fp8_all_gather() -> bool:
    """Whether FSDP2 gathers weights in FP8: never."""
    return False


def fp8_scales_precomputed() -> bool:
    """Whether one all-reduce gets all scales: blocks have scales of their own."""
    return True


def fp8_tp_refused() -> bool:
    """Whether it refuses FP8 with tensor parallelism: there is none."""
    return False


def fp8_unaligned_tokens() -> int:
    """Tokens are padded to 128 for the weight gradient, so any number works."""
    return 0


def kept_names(kept_patterns: Any = None) -> list[str]:
    """Patterns of linears that stay in bf16."""
    return list(kept_patterns or ())


def fp8_skips(kept_names: list[str]) -> list[str]:
    """The same; they are regular expressions."""
    return kept_names


def fp8_converts_head(quantized: str, kept_names: list[str]) -> bool:
    """Whether the output head is converted: by default a pattern keeps it."""
    return bool(quantized) and "lm_head" not in kept_names


def linears(
    sizes: dict[str, Any],
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
) -> dict[str, tuple[int, int]]:
    """K and N of the linears of a block; those of experts are no linears."""
    queries, pairs, ffn = heads * head_dim, kv_heads * head_dim, sizes.get("ffn")
    found = {
        "q_proj": (hidden_size, queries),
        "k_proj": (hidden_size, pairs),
        "v_proj": (hidden_size, pairs),
        "o_proj": (queries, hidden_size),
    }
    if ffn:
        found |= {"gate_proj": (hidden_size, ffn), "up_proj": (hidden_size, ffn)}
        found["down_proj"] = (ffn, hidden_size)
    return found


def fp8_block(quantized: str) -> int:
    """What K and N of a converted linear must be a multiple of."""
    return known("fp8_block", BLOCK.get(quantized))


def unaligned(
    linears: dict[str, tuple[int, int]], kept_names: list[str], fp8_block: int
) -> str:
    """Linears of a block that stay in bf16 because of K or N."""
    return Words(
        ", ".join(
            name
            for name, shape in linears.items()
            if any(size % fp8_block for size in shape)
            and not _matches(kept_names, NAMES[name])
        )
    )


def converted(
    linears: dict[str, tuple[int, int]], kept_names: list[str], fp8_block: int
) -> int:
    """Linears of a block that run in low precision."""
    return sum(
        not any(size % fp8_block for size in shape)
        and not _matches(kept_names, NAMES[name])
        for name, shape in linears.items()
    )


@cache
def _models() -> dict[str, Any]:
    """What prime-rl knows of the models that configs name, from ``models.toml``."""
    return read_toml("prime_rl", "models.toml")


def _family(name: str) -> dict[str, Any]:
    """What holds for a model's family; empty if nothing is known."""
    families = _models()["family"]
    return next((f for f in families if name.startswith(tuple(f["prefixes"]))), {})


def dropped_biases(model_name: str, kept_names: list[str]) -> str:
    """Linears of a block with a bias that a blockwise FP8 linear does not add."""
    names = _family(model_name).get("bias", ())
    return Words(", ".join(n for n in names if not _matches(kept_names, NAMES[n])))


def fp8_experts(quantized: str, grouped_gemm: bool = False) -> bool:
    """Whether experts compute in FP8 (DeepGEMM's grouped GEMM)."""
    return quantized == "fp8" and grouped_gemm


def fp8_model_refused(model_name: str) -> bool:
    """Whether the model's code refuses FP8 experts."""
    return bool(_family(model_name).get("fp8_refused", False))


def without_renderer(
    rendered_model: str,
    renderer_table: Any = None,
    rendered_tokenizer: str | None = None,
    data_kind: str = "sft",
    validation: Any = None,
) -> str:
    """The model whose messages the package renderers cannot write, if they are needed.

    By the tokenizer's name; only where the file leaves the renderer to its model.
    """
    name = rendered_tokenizer or rendered_model
    chosen = (renderer_table or {}).get("name", "auto") != "auto"
    made = data_kind == "fake" and validation is None
    return Words("" if chosen or made or name in _models()["renderers"] else name)


def _matches(patterns: list[str], name: str) -> bool:
    """Whether a pattern is found in a linear's name.

    Only patterns of letters and dots are tried; others are taken to be found.
    """
    whole = f"model.layers.0.{name}"
    return any(
        not re.fullmatch(r"(\\\.|[\w.])+", pattern) or re.search(pattern, whole)
        for pattern in patterns
    )


def optimizer_offloaded(
    state_offload: bool = False, full_offload: Any = None, fsdp_offload: bool = False
) -> bool:
    """Whether the optimizer's state lives in host memory."""
    return bool(state_offload or full_offload or fsdp_offload)


def clipping_off(expert_backend: str, full_offload: Any = None) -> str:
    """What turns gradient clipping off, whatever the norm."""
    if expert_backend == "deepep":
        return Words("DeepEP")
    return Words("" if full_offload is None else "full_offload")


def clip_norm(max_norm: float, clipping_off: str) -> float:
    """Norm to which gradients are clipped."""
    if clipping_off:
        raise Unknown("clip_norm")
    return max_norm


def gemms() -> tuple[()]:
    """The linears: unknown, as no speed model was fitted to the published runs."""
    raise Unknown("speed.trainer")


def attention_passes() -> float:
    """Forward passes of attention: unknown for the same reason."""
    raise Unknown("speed.trainer")


def not_modelled(batch: int | None = None) -> tuple[str, ...]:
    """What FP8 in the trainer does not shorten: an RL run's rollouts."""
    if batch is not None:
        return ()
    return (
        "rollouts, which FP8 in the trainer does not shorten; whole RL steps of "
        "DeepSeek-V3 on 512 H100 ran at 1.10 times bf16 "
        "(https://docs.nvidia.com/nemo/rl/0.6.0/about/performance-summary.html)",
    )


def betas(beta1: float, beta2: float) -> tuple[float, float]:
    """Decay factors of Adam's moments."""
    return (beta1, beta2)


def fused(optimizer: str, optimizer_offloaded: bool) -> bool:
    """Whether AdamW uses the fused kernel: not if its state is offloaded."""
    return optimizer == "adamw" and not optimizer_offloaded


def trial_refusal() -> str:
    """Why the built-in trial would differ from this run."""
    return "prime-rl's models, its offload and the rollouts of RL"
