"""What one rank of NeMo Automodel holds, per parameter and per token.

FSDP2 gathers each block in bf16 and reduces gradients in fp32. Embedding, final norm
and head are one group, which stays gathered from the forward pass until its gradients
are reduced, and so does the last block. Gradients that are accumulated stay whole, in
fp32. Nothing shards or casts the model on one GPU: it computes in the weights' dtype.

``python -m benchmarks.automodel.memory`` compares the estimate with the live memory of
Automodel's own recipe.

Source: Automodel at commit 36044ad3d, components/distributed/fsdp2.py and
parallelizer.py, components/models, components/loss/masked_ce.py and
recipes/llm/train_ft.py; torch 2.13, distributed/fsdp/_fully_shard.
"""

from __future__ import annotations

from typing import Any

from fp8tune.facts.memory import GIB, held, instants
from fp8tune.facts.params import tied
from fp8tune.job import Job, Unknown, Words, known

BF16, FP32, FP64 = 2, 4, 8

OWN = ("llama", "qwen2", "qwen3")
"""Families whose dense models are Automodel's own classes (_transformers/registry.py).

Other families are the classes of transformers, to which Liger's kernels are applied.
"""

FUSED_NORMS = ("llama", "qwen2")
"""Own families whose norm is compiled, and keeps its input; that of others is eager."""

ADAM = ("torch.optim.Adam", "torch.optim.AdamW")
LOSS = "MaskedCrossEntropy"

SIZES = {"float32": 4, "fp32": 4, "bfloat16": 2, "bf16": 2, "float16": 2, "fp16": 2}
"""Bytes of a weight by the names of dtypes."""

PLAIN: dict[str, tuple[tuple[Any, ...], str]] = {
    "distributed.mp_policy": ((None,), "memory.policy"),
    "distributed.autocast_dtype": ((None,), "memory.policy"),
    "distributed.offload_policy": ((None,), "memory.offload"),
    "distributed.reshard_after_forward": ((None,), "memory.gathered"),
    "distributed.activation_checkpointing_scope": (
        (None, "all", "language"),
        "memory.switch",
    ),
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

BEFORE_STEP = (
    *("memory.gather_gib", "memory.forward_gib", "memory.loss_gib"),
    *("memory.regather_gib", "memory.backward_gib", "memory.backward_end_gib"),
    *("memory.experts_gib", "memory.embedding_gib", "memory.reduce_gib"),
)
"""Instants before the optimizer's step."""

BAND, COMPILED_BAND, EXPERT_BAND = (0.05, 0.08), (0.15, 0.10), (0.10, 0.15)
"""How far below and above the estimate a peak may lie, as shares of it.

More than the worst errors of the real recipe on the CPU
(``results/automodel_memory.md``), because a CPU does not show the workspaces of
kernels. Without AC the compiler decides what blocks keep: in FP8 the peak was 12 %
lower than estimated, as the compiler kept 7 bytes per value of the residual stream
less, and it is not known which tensors these are. Routing that is less even than at
the start of a run adds to what a mixture of experts needs.
"""


def covered(
    job: Job,
    trainer_version: str,
    recipe: str,
    strategy: str,
    emulates: bool,
    whole_model: bool,
    expert_ranks: int,
    experts: int,
) -> bool:
    """True unless something is on that no estimate covers."""
    if trainer_version == "0.3.0":
        raise Unknown("memory.version")
    if recipe not in (
        "TrainFinetuneRecipeForNextTokenPrediction",
        "BenchmarkingRecipeForNextTokenPrediction",
    ):
        raise Unknown("memory.recipe")
    if strategy != "fsdp2":
        raise Unknown("memory.strategy")
    for key, (values, gap) in PLAIN.items():
        if job.find(key) not in values:
            raise Unknown(gap)
    if emulates:
        raise Unknown("memory.switch")
    if expert_ranks > 1 and not experts:
        raise Unknown("memory.degrees")
    return whole_model


def lower_bounds(job: Job) -> dict[str, Any]:
    """What is known of other mixtures of experts: weights, moments and gradients.

    What their blocks hold before the step is not known: most recipes dispatch tokens by
    libraries that need GPUs.
    """
    if job["experts_modelled"]:
        return {}
    unknown = dict.fromkeys((*BEFORE_STEP, "optimizer_temporary_bytes"), 0.0)
    return {**unknown, "memory.expert_instants": {}}


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

    Without ``torch_dtype`` bf16 for ``from_config``, else as in the checkpoint; those
    of the known models have 16 bits.
    """
    if weights_dtype == "auto":
        if str(model__target_).endswith("from_config") or "names" in sizes:
            return BF16
        config = local_config or {}
        weights_dtype = str(config.get("dtype") or config.get("torch_dtype"))
    return known("weights.checkpoint", SIZES.get(weights_dtype))


def weight_bytes(covered: bool, loaded_bytes: int) -> int:
    """Bytes per parameter of the weights that the optimizer updates."""
    if not covered:
        raise Unknown("memory.switch")
    return loaded_bytes


def compute_bytes(sharded: bool, weight_bytes: int) -> int:
    """Bytes of a value in compute: bf16 with FSDP, else the weights' dtype."""
    return BF16 if sharded else weight_bytes


def optimizer(job: Job) -> str:
    """The optimizer: Adam or AdamW of PyTorch."""
    name = str(known("optimizer.unnamed", job.find("optimizer._target_")))
    kinds = dict(zip(ADAM, ("adam", "adamw"), strict=True))
    return Words(known("optimizer_bytes", kinds.get(name)))


def largest_parameter(
    params_embedding: int,
    params_ffn: int,
    ffn_matrices: int,
    moe_layers: int,
    params_routed_experts: float,
) -> float:
    """Values of the largest parameter: the embedding, or the largest of an FFN.

    Gate and up of all experts are one.
    """
    if moe_layers:
        return max(params_embedding, 2 / 3 * params_routed_experts)
    return max(params_embedding, params_ffn // ffn_matrices)


def clip_bytes(largest_parameter: float, weight_bytes: int, shards: int) -> float:
    """Bytes that clipping allocates for the norm of the largest gradient.

    Its quotient by the maximum, the square of that, and this in fp64. It clips at 1
    where the recipe says nothing (components/training/utils.py).
    """
    return (2 * weight_bytes + FP64) * largest_parameter / shards


def optimizer_temporary_bytes(
    optimizer: str,
    weight_bytes: int,
    sharded: bool,
    shards: int,
    params_rank: float,
    largest_parameter: float,
    clip_bytes: float,
    optimizer_fused: Any = None,
    optimizer_foreach: Any = None,
    optimizer_weight_decay: Any = 0,
) -> float:
    """Bytes that clipping or the step allocates, whichever are more.

    The fused kernel allocates none. Adam adds the weight decay to a copy of the
    gradient. All parameters at once, as is the default on one GPU, take a square root
    each; one by one, as is the default of sharded parameters, the largest takes a root
    and a quotient (torch/optim/adam.py).
    """
    if optimizer_fused:
        return clip_bytes
    copies = int(optimizer == "adam" and bool(optimizer_weight_decay))
    if optimizer_foreach or (optimizer_foreach is None and not sharded):
        step = (1 + copies) * params_rank
    else:
        step = (2 + copies) * largest_parameter
    return max(clip_bytes, weight_bytes * step / shards)


def unsharded_gradient_bytes(
    grad_accum: int,
    sharded: bool,
    weight_bytes: int,
    distributed_defer_fsdp_grad_sync: Any = True,
) -> int:
    """Bytes per parameter of gradients that are summed whole: in fp32 with FSDP."""
    if grad_accum == 1:
        return 0
    if not sharded:
        return weight_bytes
    return FP32 if distributed_defer_fsdp_grad_sync else 0


def accumulated_gradient_bytes(
    grad_accum: int, sharded: bool, weight_bytes: int, unsharded_gradient_bytes: int
) -> int:
    """Bytes per parameter of summed gradients that are reduced at once."""
    summed = grad_accum > 1 and sharded and not unsharded_gradient_bytes
    return weight_bytes if summed else 0


def reduces_each_micro_batch(distributed_defer_fsdp_grad_sync: Any = True) -> bool:
    """Whether FSDP reduces the gradients of each micro-batch: if told to."""
    return not distributed_defer_fsdp_grad_sync


def reduce_bytes(sharded: bool) -> int:
    """Bytes per parameter of FSDP's buffer for the reduce-scatter: fp32."""
    return FP32 if sharded else 0


def gathered_weight_bytes(fp8_all_gather: bool) -> int:
    """Bytes per parameter of a block's gathered weights."""
    return 1 if fp8_all_gather else BF16


def prefetched_blocks(
    distributed_enable_fsdp2_prefetch: Any = False,
    distributed_fsdp2_backward_prefetch_depth: Any = 2,
) -> int:
    """Blocks that FSDP gathers ahead in the backward pass: one by itself."""
    if distributed_enable_fsdp2_prefetch:
        return int(distributed_fsdp2_backward_prefetch_depth)
    return 1


def gathered_bytes(
    sharded: bool,
    ac_applied: str,
    unsharded_gradient_bytes: int,
    gathered_weight_bytes: int,
    prefetched_blocks: int,
) -> float:
    """Bytes per parameter of a block that FSDP holds in its backward pass.

    Weights of this block and of those that are gathered ahead, gradients in bf16, and
    with full AC, where any block may be the peak, the fp32 buffer of the block before.
    """
    if not sharded:
        return 0
    weights = gathered_weight_bytes * (1 + prefetched_blocks)
    if unsharded_gradient_bytes:
        return weights + 1
    return weights + (5 if ac_applied == "full" else 2)


def own_model(sizes: dict[str, Any], model_force_hf: Any = False) -> bool:
    """Whether the model is Automodel's own class."""
    return sizes.get("family") in OWN and not model_force_hf


def fused_norms(sizes: dict[str, Any], own_model: bool, moe_layers: int) -> bool:
    """Whether norms are one kernel, which keeps its input; so with experts."""
    return bool(moe_layers) or (own_model and sizes.get("family") in FUSED_NORMS)


def liger(own_model: bool, model_use_liger_kernel: Any = True) -> bool:
    """Whether Liger's kernels are applied where they are installed."""
    return not own_model and bool(model_use_liger_kernel)


def block_bytes(
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    qk_norm: bool,
    compute_bytes: int,
    moe_layers: int,
    expert_block_bytes: float,
    fused_norms: bool,
    liger: bool,
    compile: bool,  # noqa: A002
    model_attn_implementation: Any = None,
) -> float:
    """Bytes per token that a block saves for its backward pass.

    Of a fused norm input and output, of an eager one the input in fp32, its quotient
    and output; queries, keys, values and the output of attention; gate, its activation,
    up and their product, which a compiled block and Liger compute again.
    """
    if moe_layers:
        return expert_block_bytes
    queries, pairs = heads * head_dim, kv_heads * head_dim
    attention = 2 * compute_bytes * (queries + pairs) + FP32 * heads
    least = (4 * hidden_size + 3 * ffn_size) * compute_bytes + attention
    if model_attn_implementation == "eager":
        raise Unknown("activation_bytes.scores", least)
    if liger and not compile:
        raise Unknown("activation_bytes.liger", least)
    if compile and qk_norm:
        raise Unknown("activation_bytes.norm", least)
    if fused_norms or compile:
        norms = 4 * compute_bytes * hidden_size + 2 * FP32
    else:
        norms = 2 * (FP32 + 2 * compute_bytes) * hidden_size + 2 * FP32
    if qk_norm:
        attention += (FP32 + compute_bytes) * (queries + pairs)
        attention += FP32 * (heads + kv_heads)
    matrices = 3 if compile else 4
    return norms + attention + matrices * compute_bytes * ffn_size


def checkpoints_parts(own_model: bool, compile: bool) -> bool:  # noqa: A002
    """Whether full AC wraps norms, attention and FFN each, and not the block.

    It wraps the blocks of transformers' classes (components/distributed/
    parallelizer.py).
    """
    return own_model or compile


def rotary_bytes(
    own_model: bool, sharded: bool, weight_bytes: int, head_dim: int
) -> int:
    """Bytes per token of cosines and sines that a block keeps.

    With fp32 weights Automodel's own models compute them in fp32, and FSDP casts them
    for each block.
    """
    cast = own_model and sharded and weight_bytes == FP32
    return 2 * BF16 * head_dim if cast else 0


def activation_bytes(
    ac_applied: str,
    checkpoints_parts: bool,
    compute_bytes: int,
    hidden_size: int,
    block_bytes: float,
    rotary_bytes: int,
    moe_layers: int,
    expert_saved_bytes: float,
) -> float:
    """Bytes per token that one block keeps: with full AC what its parts read."""
    if moe_layers:
        return expert_saved_bytes
    one = compute_bytes * hidden_size
    if ac_applied == "full":
        return rotary_bytes + (4 * one if checkpoints_parts else one)
    if ac_applied == "none":
        return rotary_bytes + block_bytes
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
    if loss != LOSS or not job.find("loss_fn.fp32_upcast"):
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
    fused_norms: bool,
    block_tokens: int,
    memory_tables_bytes: float,
) -> float:
    """Bytes per token of the final norm, and of the gathered weights beside it."""
    norm = 2 * compute_bytes if fused_norms else FP32 + 2 * compute_bytes
    return norm * hidden_size + memory_tables_bytes / block_tokens


def params_tied(
    tied_embeddings: bool,
    sharded: bool,
    fp8_all_gather: bool = False,
    fp8_converts_head: bool = False,
) -> bool:
    """Whether head and embedding are one parameter in a step: not with FSDP.

    It shards them before Automodel ties them, and so gathers and reduces each; the
    optimizer has one of them.
    """
    whole = tied(tied_embeddings, fp8_all_gather, fp8_converts_head)
    return whole and not sharded


def params_padded(
    params_rank: float, tied_embeddings: bool, sharded: bool, params_embedding: int
) -> float:
    """Parameters of rank 0 that have a weight and state of the optimizer."""
    shared = tied_embeddings and sharded
    return params_rank - (params_embedding if shared else 0)


def memory_other_gradients_gib(
    params_rank: float,
    params_root: float,
    gradient_bytes: int,
    unsharded_gradient_bytes: int,
    accumulated_gradient_bytes: int,
    shards: int,
    memory_added_gradients_gib: float,
) -> float:
    """Gradients other than the new ones of embedding and head, at the end [GiB]."""
    return held.other_gradients_gib(
        params_padded=params_rank,
        params_root=params_root,
        gradient_bytes=gradient_bytes,
        unsharded_gradient_bytes=unsharded_gradient_bytes,
        accumulated_gradient_bytes=accumulated_gradient_bytes,
        shards=shards,
        memory_added_gradients_gib=memory_added_gradients_gib,
    )


def cast_bytes() -> int:
    """Bytes per parameter of copies that autocast makes: there is no autocast."""
    return 0


def memory_tables_bytes(
    sharded: bool,
    params_root: float,
    params_last_group: float,
    gathered_weight_bytes: int,
    layers: int,
    expert_ranks: int,
    params_fsdp_block: float,
) -> float:
    """Bytes that FSDP has gathered in the loss: embedding, head and the last block.

    With EP it keeps all blocks.
    """
    if not sharded:
        return 0
    if expert_ranks > 1:
        return BF16 * (params_root + layers * params_fsdp_block)
    return BF16 * params_root + gathered_weight_bytes * params_last_group


def memory_gather_gib(
    sharded: bool,
    params_root: float,
    params_first_group: float,
    gathered_weight_bytes: int,
    memory_state_gib: float,
    memory_gradients_gib: float,
) -> float:
    """When FSDP gathers the first block of a micro-batch [GiB].

    Embedding and head, the buffer that they came from, and that of the block.
    """
    block = gathered_weight_bytes * params_first_group
    whole = 2 * BF16 * params_root + block if sharded else 0
    return memory_state_gib + memory_gradients_gib + whole / GIB


def memory_forward_gib(
    sharded: bool,
    params_last_group: float,
    gathered_weight_bytes: int,
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_activations_gib: float,
    memory_head_gib: float,
    memory_held_logits_gib: float,
) -> float:
    """When the head has computed the logits [GiB].

    The buffer from which FSDP gathered the last block still exists.
    """
    kept = memory_state_gib + memory_gradients_gib + memory_activations_gib
    buffer = gathered_weight_bytes * params_last_group / GIB if sharded else 0
    return kept + memory_head_gib + memory_held_logits_gib + buffer


def memory_regather_gib(
    params_head_gradient: float,
    compute_bytes: int,
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_activations_gib: float,
    memory_head_gib: float,
    memory_held_logits_gib: float,
) -> float:
    """In the backward pass of the head: logits, their gradient, and its own [GiB]."""
    kept = memory_state_gib + memory_gradients_gib + memory_activations_gib
    new = memory_held_logits_gib + compute_bytes * params_head_gradient / GIB
    return kept + memory_head_gib + memory_held_logits_gib + new


def memory_gathered_gib(
    sharded: bool,
    params_root: float,
    params_head_gradient: float,
    params_block: float,
    gathered_bytes: float,
) -> float:
    """Weights and gradients that are whole in the backward pass [GiB].

    Of FSDP's blocks, embedding and head, and the head's gradient.
    """
    root = BF16 * (params_root + params_head_gradient) if sharded else 0
    return (root + gathered_bytes * params_block) / GIB


def memory_embedding_gib(
    sharded: bool,
    pp: int,
    compile: bool,  # noqa: A002
    grad_accum: int,
    params_rank: float,
    params_root: float,
    params_embedding: int,
    params_head_gradient: float,
    params_tied: bool,
    params_first_group: float,
    compute_bytes: int,
    unsharded_gradient_bytes: int,
    reduce_bytes: int,
    memory_state_gib: float,
    memory_gradients_gib: float,
    memory_late_gradients_gib: float,
    memory_other_gradients_gib: float,
    memory_routers_gib: float,
    memory_held_logits_gib: float,
) -> float:
    """Embedding's backward pass: its gradient and the head's, in bf16 [GiB]."""
    return instants.embedding_gib(
        sharded=sharded,
        pp=pp,
        compile=compile,
        grad_accum=grad_accum,
        params_rank=params_rank,
        params_root=params_root,
        params_embedding=params_embedding,
        params_head_gradient=params_head_gradient,
        params_tied=params_tied,
        params_first_group=params_first_group,
        compute_bytes=compute_bytes,
        gradient_bytes=compute_bytes,
        unsharded_gradient_bytes=unsharded_gradient_bytes,
        reduce_bytes=reduce_bytes,
        memory_state_gib=memory_state_gib,
        memory_gradients_gib=memory_gradients_gib,
        memory_late_gradients_gib=memory_late_gradients_gib,
        memory_other_gradients_gib=memory_other_gradients_gib,
        memory_routers_gib=memory_routers_gib,
        memory_held_logits_gib=memory_held_logits_gib,
    )


def memory_optimizer_gib(
    memory_state_gib: float,
    memory_reduced_gradients_gib: float,
    optimizer_temporary_bytes: float,
) -> float:
    """In the optimizer step, where no logits are held [GiB]."""
    temporary = optimizer_temporary_bytes / GIB
    return memory_state_gib + memory_reduced_gradients_gib + temporary


def estimate_family(sharded: bool, compile: bool, moe_layers: int) -> str:  # noqa: A002
    """The group of measured runs from which the estimate's error is taken."""
    if moe_layers:
        return Words("mixture of experts")
    if compile:
        return Words("compiled")
    return Words("FSDP" if sharded else "one GPU")


def samples_may_be_shorter(
    packed_sequence_packed_sequence_size: Any = None, dataset_seq_len: Any = None
) -> bool:
    """Whether batches may be shorter than the longest sequence: not packed."""
    return not (packed_sequence_packed_sequence_size or dataset_seq_len)


def memory_band(compile: bool, moe_layers: int) -> tuple[float, float]:  # noqa: A002
    """How far below and above the estimate the peak may lie, as shares of it."""
    if moe_layers:
        return EXPERT_BAND
    return COMPILED_BAND if compile else BAND
