"""What one rank of NeMo Automodel holds of a dense model, per parameter and per token.

The instants of a step are those of FSDP2 (``fp8tune/facts/memory``). Nothing shards or
casts the model on one GPU: it computes in the weights' dtype.

``python -m benchmarks.automodel.memory`` compares with Automodel's own recipe.
Source: Automodel at commit 36044ad3d, components/distributed/fsdp2.py and
parallelizer.py, components/models, components/loss/masked_ce.py and
recipes/llm/train_ft.py; torch 2.13, distributed/fsdp/_fully_shard.
"""

from __future__ import annotations

from typing import Any

from fp8tune.facts.memory import GIB
from fp8tune.job import Job, Unknown, Words, known

BF16, FP32, FP64 = 2, 4, 8

OWN, FUSED_NORMS = ("llama", "qwen2", "qwen3"), ("llama", "qwen2")
"""Families whose dense models are Automodel's own classes, and have a compiled norm.

Other families are the classes of transformers, to which Liger's kernels are applied.
"""

ADAM = {"torch.optim.Adam": "adam", "torch.optim.AdamW": "adamw"}

SIZES = {"float32": 4, "fp32": 4, "bfloat16": 2, "bf16": 2, "float16": 2, "fp16": 2}
"""Bytes of a weight by the names of dtypes."""

AC = "distributed.activation_checkpointing"
PLAIN: dict[str, tuple[tuple[Any, ...], str]] = {
    "distributed.mp_policy": ((None,), "memory.policy"),
    "distributed.autocast_dtype": ((None,), "memory.policy"),
    "distributed.defer_fsdp_grad_sync": ((None, True), "memory.policy"),
    "distributed.offload_policy": ((None,), "memory.offload"),
    "distributed.reshard_after_forward": ((None,), "memory.gathered"),
    "distributed.enable_fsdp2_prefetch": ((None, False), "memory.gathered"),
    f"{AC}_scope": ((None, "all", "language"), "memory.switch"),
    "distributed.dp_replicate_size": ((None, 0, 1), "shards.hybrid"),
    "distributed.tp_size": ((None, 0, 1), "memory.degrees"),
    "distributed.pp_size": ((None, 0, 1), "memory.degrees"),
    "distributed.cp_size": ((None, 0, 1), "memory.degrees"),
    "qat.enabled": ((None, False), "model.adapter"),
    "model.backend.te_fp8": ((None, False), "memory.te"),
    "model.backend.rms_norm": ((None, "torch_fp32", "te"), "memory.switch"),
    "optimizer.amsgrad": ((None, False), "optimizer_bytes"),
}
"""Values of keys with which memory is known, and what is missing with others."""

RECIPES = "TrainFinetuneRecipe", "BenchmarkingRecipe"
BEFORE_STEP = ("gather_gib", "loss_gib", "embedding_gib", "reduce_gib")
EXPERTS: dict[str, Any] = {f"memory.{name}": 0.0 for name in BEFORE_STEP} | {
    "memory.expert_instants": {},
    "optimizer_temporary_bytes": 0.0,
}
"""Lower bounds of what is not modelled of a mixture of experts."""

BANDS = {"FSDP": (0.06, 0.10), "one GPU": (0.06, 0.10), "compiled": (0.16, 0.10)}
"""How far below and above the estimate a peak may lie, by ``estimate_family``.

More than the worst errors of the real recipe on the CPU
(``results/automodel_memory.md``), because a CPU does not show the workspaces of
kernels. The compiler keeps less of FP8 blocks without AC than is estimated.
"""


def covered(
    job: Job,
    trainer_version: str,
    recipe: str,
    strategy: str,
    whole_model: bool,
) -> bool:
    """True unless something is on that no estimate covers."""
    if trainer_version == "0.3.0":
        raise Unknown("memory.version")
    if recipe not in (f"{name}ForNextTokenPrediction" for name in RECIPES):
        raise Unknown("memory.recipe")
    if strategy != "fsdp2":
        raise Unknown("memory.strategy")
    for key, (values, gap) in PLAIN.items():
        if job.find(key) not in values:
            raise Unknown(gap)
    return whole_model


def lower_bounds(moe_layers: int) -> dict[str, Any]:
    """What is known of mixtures of experts: weights, moments and gradients.

    Most recipes dispatch tokens by libraries that need GPUs.
    """
    return EXPERTS if moe_layers else {}


def sharded(shards: int) -> bool:
    """Whether FSDP shards the weights: on one GPU Automodel skips it."""
    return shards > 1


def loaded_bytes(
    sizes: dict[str, Any],
    weights_dtype: str,
    local_config: dict[str, Any] | None = None,
    model__target_: Any = None,
) -> int:
    """Bytes per parameter of the weights as they are loaded.

    Without ``torch_dtype`` as in the checkpoint: 16 bits of known models.
    """
    if weights_dtype == "auto":
        if str(model__target_).endswith("from_config") or "names" in sizes:
            return BF16
        config = local_config or {}
        weights_dtype = str(config.get("dtype") or config.get("torch_dtype"))
    return known("weights.checkpoint", SIZES.get(weights_dtype))


def weight_bytes(covered: bool, loaded_bytes: int) -> int:
    """Bytes per parameter of the weights that the optimizer updates."""
    return known("memory.switch", loaded_bytes if covered else None)


def compute_bytes(sharded: bool, weight_bytes: int) -> int:
    """Bytes of a value in compute: bf16 with FSDP, else the weights' dtype."""
    return BF16 if sharded else weight_bytes


def optimizer(job: Job) -> str:
    """The optimizer: Adam or AdamW of PyTorch."""
    name = str(known("optimizer.unnamed", job.find("optimizer._target_")))
    return Words(known("optimizer_bytes", ADAM.get(name)))


def optimizer_temporary_bytes(
    weight_bytes: int,
    sharded: bool,
    shards: int,
    params_rank: float,
    params_embedding: int,
    optimizer_fused: Any = None,
    optimizer_foreach: Any = None,
) -> float:
    """Bytes that clipping or the step allocates, whichever are more.

    Clipping the largest parameter takes its quotient by the maximum, the square of
    that, and this in fp64 (components/training/utils.py). The fused step takes nothing.
    All parameters at once, as is the default on one GPU, take a square root each; one
    by one, as is the default of sharded parameters, take less than clipping.
    """
    clipping = (2 * weight_bytes + FP64) * params_embedding
    at_once = not sharded if optimizer_foreach is None else optimizer_foreach
    step = weight_bytes * params_rank if at_once and not optimizer_fused else 0
    return max(clipping, step) / shards


def unsharded_gradient_bytes(grad_accum: int, sharded: bool, weight_bytes: int) -> int:
    """Bytes per parameter of gradients that are summed whole: in fp32 with FSDP."""
    if grad_accum == 1:
        return 0
    return FP32 if sharded else weight_bytes


def accumulated_gradient_bytes() -> int:
    """Bytes per parameter of summed gradients that are reduced at once: none."""
    return 0


def reduces_each_micro_batch() -> bool:
    """Whether FSDP reduces the gradients of each micro-batch: of the last alone."""
    return False


def reduce_bytes(sharded: bool) -> int:
    """Bytes per parameter of FSDP's buffer for the reduce-scatter: fp32."""
    return FP32 if sharded else 0


def gathered_bytes(sharded: bool, unsharded_gradient_bytes: int) -> int:
    """Bytes per parameter of a block that FSDP holds in its backward pass.

    Weights of two blocks and gradients of one in bf16, of which some are summed.
    """
    return (5 if unsharded_gradient_bytes else 6) if sharded else 0


def own_model(sizes: dict[str, Any], model_force_hf: Any = False) -> bool:
    """Whether the model is Automodel's own class (_transformers/registry.py)."""
    return sizes.get("family") in OWN and not model_force_hf


def block_bytes(
    sizes: dict[str, Any],
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    qk_norm: bool,
    moe_layers: int,
    compute_bytes: int,
    own_model: bool,
    compile: bool,  # noqa: A002
    model_attn_implementation: Any = None,
    model_use_liger_kernel: Any = True,
) -> float:
    """Bytes per token that a block saves for its backward pass.

    Of a fused norm input and output, of an eager one the input in fp32, its quotient
    and output; queries, keys, values and the output of attention; gate, its activation,
    up and their product, which a compiled block computes again.
    """
    if moe_layers:
        raise Unknown("memory.experts", 0.0)
    queries, pairs = heads * head_dim, kv_heads * head_dim
    attention = 2 * compute_bytes * (queries + pairs) + FP32 * heads
    least = (4 * hidden_size + 3 * ffn_size) * compute_bytes + attention
    if model_attn_implementation == "eager":
        raise Unknown("activation_bytes.scores", least)
    if model_use_liger_kernel and not (own_model or compile):
        raise Unknown("activation_bytes.liger", least)
    if compile and qk_norm:
        raise Unknown("activation_bytes.norm", least)
    fused = compile or (own_model and sizes.get("family") in FUSED_NORMS)
    norms = 2 * (2 * compute_bytes + (0 if fused else FP32)) * hidden_size
    if qk_norm:
        attention += (FP32 + compute_bytes) * (queries + pairs)
    return norms + attention + (3 if compile else 4) * compute_bytes * ffn_size


def checkpoints_parts(own_model: bool, compile: bool) -> bool:  # noqa: A002
    """Whether full AC wraps norms, attention and FFN each, and not the block."""
    return own_model or compile  # transformers' classes: whole blocks


def activation_bytes(
    ac_applied: str,
    checkpoints_parts: bool,
    compute_bytes: int,
    hidden_size: int,
    block_bytes: float,
) -> float:
    """Bytes per token that one block keeps: with full AC what its parts read."""
    one = compute_bytes * hidden_size
    if ac_applied == "full":
        return 4 * one if checkpoints_parts else one
    if ac_applied == "none":
        return block_bytes
    raise Unknown("activation_bytes.selective", one)


def recompute_bytes(
    ac_applied: str,
    checkpoints_parts: bool,
    compute_bytes: int,
    hidden_size: int,
    ffn_size: int,
    block_bytes: float,
    fp8_cast_bytes: int,
) -> float:
    """Bytes per token of one block in its backward pass, beyond what it kept.

    What full AC computes again, of the FFN or of the block; the gradient of its output,
    and in the FFN those of gate, activation and up, less the product.
    """
    gradients = compute_bytes * (hidden_size + 2 * ffn_size) + fp8_cast_bytes
    if ac_applied == "none":
        return gradients
    again = 4 * compute_bytes * ffn_size if checkpoints_parts else block_bytes
    return again + gradients


def logit_bytes(job: Job, compute_bytes: int) -> int:
    """Bytes per token and vocabulary entry in the backward pass of the loss.

    Logits, which the training loop holds, their log-probabilities in fp32, and two
    gradients in fp32.
    """
    loss = str(job.find("loss_fn._target_")).rpartition(".")[2]
    if loss != "MaskedCrossEntropy" or not job.find("loss_fn.fp32_upcast"):
        raise Unknown("logit_bytes.loss", 0)
    return compute_bytes + 3 * FP32


def held_logit_bytes(logit_bytes: int, compute_bytes: int) -> int:
    """Bytes per token and vocabulary entry of logits in the whole backward pass.

    The training loop holds the model's output (_forward_backward_step).
    """
    return compute_bytes if logit_bytes else 0


def head_bytes(
    hidden_size: int,
    compute_bytes: int,
    sharded: bool,
    block_tokens: int,
    params_root: float,
    params_block: float,
) -> float:
    """Bytes per token of an eager final norm, and of the gathered weights beside it.

    FSDP holds embedding, head and the last block.
    """
    tables = BF16 * (params_root + params_block) if sharded else 0
    return (FP32 + 2 * compute_bytes) * hidden_size + tables / block_tokens


def memory_forward_gib() -> float:
    """At the end of the forward pass: less than in the loss, with its tables [GiB]."""
    return 0.0


def memory_regather_gib() -> float:
    """When FSDP gathers embedding and head again: they stay gathered [GiB]."""
    return 0.0


def memory_optimizer_gib(
    memory_state_gib: float,
    memory_reduced_gradients_gib: float,
    optimizer_temporary_bytes: float,
) -> float:
    """In the optimizer step, where no logits are held [GiB]."""
    held = memory_state_gib + memory_reduced_gradients_gib
    return held + optimizer_temporary_bytes / GIB


def params_tied(tied_embeddings: bool, sharded: bool) -> bool:
    """Whether head and embedding are one parameter in a step: not with FSDP.

    It shards them before Automodel ties them, and so gathers and reduces each; the
    optimizer has one of them.
    """
    return tied_embeddings and not sharded


def params_padded(
    params_rank: float, tied_embeddings: bool, sharded: bool, params_embedding: int
) -> float:
    """Parameters of rank 0 that have a weight and state of the optimizer."""
    return params_rank - (params_embedding if tied_embeddings and sharded else 0)


def estimate_family(sharded: bool, compile: bool) -> str:  # noqa: A002
    """The group of measured runs from which the estimate's error is taken."""
    return Words("compiled" if compile else "FSDP" if sharded else "one GPU")


def samples_may_be_shorter(
    packed_sequence_packed_sequence_size: Any = None, dataset_seq_len: Any = None
) -> bool:
    """Whether batches may be shorter than the longest sequence: not packed."""
    return not (packed_sequence_packed_sequence_size or dataset_seq_len)


def memory_band(estimate_family: str) -> tuple[float, float]:
    """How far below and above the estimate the peak may lie, as shares of it."""
    return BANDS[estimate_family]
