"""What one rank of KempnerForge holds: shards, bytes per parameter, tokens.

Source: KempnerForge at commit 5666d0d, files in brackets.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, known


def sharded(world_size: int, pp: int) -> bool:
    """Whether FSDP2 wraps the model: if the mesh has more than a pipeline dimension.

    A pipeline over all GPUs has no data-parallel dimension (distributed/setup.py;
    parallel.py, apply_fsdp2).
    """
    return 1 < world_size != pp


def shards(dp_shard: int, dp_replicate: int, cp: int) -> int:
    """Ranks that share one copy of the weights; unknown if the mesh cannot be built.

    Replicas with one shard are sharded too (parallel.py, get_dp_mesh).
    """
    if cp > 1:
        raise Unknown("shards.cp")
    if dp_replicate > 1 and dp_shard > 1:
        raise Unknown("shards.hybrid")
    return dp_shard * dp_replicate


def sequence_parallel(tp: int, pp: int, tied_embeddings: bool, moe_layers: int) -> bool:
    """Whether TP also splits norms and residual stream (tensor_parallel.py)."""
    return tp > 1 and pp == 1 and not tied_embeddings and not moe_layers


def head_shards(tp: int, sequence_parallel: bool) -> int:
    """Ranks over which the output head is split (distributed/tensor_parallel.py)."""
    return tp if sequence_parallel else 1


def stage_layers(layers: int, pp: int) -> int:
    """Blocks of the first pipeline stage, the largest (compute_layer_assignment)."""
    return -(-layers // pp)


def in_flight(pp: int, grad_accum: int, distributed_pp_schedule: str) -> int:
    """Micro-batches with activations on the first pipeline stage."""
    if pp == 1:
        return 1
    return grad_accum if distributed_pp_schedule == "gpipe" else min(pp, grad_accum)


def compute_bytes(precision: str) -> int:
    """Bytes of a value in compute. Inputs and outputs of FP8 linears are bf16."""
    sizes = {"bf16": 2, "fp8": 2, "fp16": 2, "fp32": 4}
    return known("compute_bytes", sizes.get(precision))


def weight_bytes(compute_bytes: int) -> int:
    """Bytes per parameter of the weights, which have only the compute dtype.

    FSDP gathers them in it (config/training.py, param_dtype; default_mp_policy).
    """
    return compute_bytes


def gradient_bytes(weight_bytes: int) -> int:
    """Bytes per parameter of a reduced gradient: the weights' dtype."""
    return weight_bytes


def reduce_bytes(sharded: bool, pp: int) -> int:
    """Bytes per parameter of FSDP's buffer for the reduce-scatter: fp32.

    None without FSDP. That of a pipeline stage is not counted (parallel.py,
    default_mp_policy).
    """
    return 4 if sharded and pp == 1 else 0


def optimizer_bytes(job: Job, optimizer: str, weight_bytes: int) -> float:
    """Bytes per parameter of optimizer state, in the weights' dtype.

    Muon has one moment, and AdamW's two for ``adam_share``, the parameters that it
    leaves to AdamW (training/optimizer.py).
    """
    if optimizer == "muon":
        return float(weight_bytes * (1 + job["adam_share"]))
    states = {"adamw": 2, "lion": 1, "schedule_free_adamw": 3}
    return weight_bytes * known("optimizer_bytes", states.get(optimizer))


def kept_gradient_bytes(
    job: Job, optimizer: str, gradient_bytes: int, sharded: bool, grad_accum: int
) -> float:
    """Bytes per parameter of reduced gradients that outlive the step.

    Muon's inner AdamW does not zero its gradients, and with FSDP norms share one buffer
    with all gradients of their block (training/optimizer.py). With accumulation on one
    GPU all gradients are counted elsewhere.
    """
    if optimizer != "muon":
        return 0
    if sharded:
        return gradient_bytes
    return float(gradient_bytes * job["adam_share"]) if grad_accum == 1 else 0


def unsharded_gradient_bytes(
    grad_accum: int, vlm: bool, pp: int, sharded: bool, gradient_bytes: int
) -> int:
    """Bytes per parameter of unsharded gradients that accumulation keeps on every rank.

    fp32 if the trainer skips the reduce-scatter: in text runs (scripts/train.py
    maybe_no_sync) and in every pipeline stage (torch.distributed.pipelining).
    """
    if not sharded:
        return gradient_bytes if grad_accum > 1 else 0
    return 4 if pp > 1 or (grad_accum > 1 and not vlm) else 0


def accumulated_gradient_bytes(grad_accum: int, vlm: bool, gradient_bytes: int) -> int:
    """Bytes per parameter of sharded gradients that accumulation keeps.

    Only a VLM has them, because it reduces every micro-batch.
    """
    return gradient_bytes if vlm and grad_accum > 1 else 0


def init_bytes(tp: int, vlm: bool, weight_bytes: int) -> int:
    """Bytes per parameter of the whole model on a GPU before sharding.

    With TP the model is built on the meta device. A VLM is sharded on the host first
    (parallel.py, build_parallel_model and _build_vlm).
    """
    return 0 if tp > 1 or vlm else weight_bytes


def block_tokens(
    micro_batch: int,
    seq_len: int,
    video: bool,
    data_pack_sequences: bool,
    model_sdpa_backend: str,
    vlm_arch_name: str,
) -> int:
    """Tokens of one micro-batch in the residual stream.

    Unknown if attention gets an explicit mask or keeps its scores, because their memory
    was not measured. It comes on top, so this number of tokens gives a lower bound.
    """
    tokens = micro_batch * seq_len
    if data_pack_sequences:
        raise Unknown("block_tokens.packed", tokens)
    if video and vlm_arch_name != "cross_attention":
        raise Unknown("block_tokens.video", tokens)
    if model_sdpa_backend == "math":
        raise Unknown("block_tokens.math", tokens)
    return tokens


def head_tokens(
    micro_batch: int, block_tokens: int, pp: int, vlm: bool, vlm_max_text_len: int = 0
) -> int:
    """Tokens of one micro-batch with logits on rank 0: text only."""
    if pp > 1:
        return 0
    return micro_batch * vlm_max_text_len if vlm else block_tokens


def block_copies(vlm_arch_name: str) -> int:
    """Copies of a block's weights: MoT has one per modality (model/mot.py)."""
    if vlm_arch_name == "moma":
        raise Unknown("block_copies", 1)
    return 2 if vlm_arch_name == "mot" else 1


def cross_blocks(
    vlm_arch_name: str,
    layers: int,
    vlm_cross_attention_every_n_layers: int | None = None,
) -> int:
    """Number of cross-attention blocks (model/transformer.py)."""
    if vlm_arch_name != "cross_attention":
        return 0
    every = known("cross_blocks", vlm_cross_attention_every_n_layers)
    return layers // every


def extra_parameters(
    cross_blocks: int,
    hidden_size: int,
    heads: int,
    params_ffn: int,
    vlm: bool,
    vlm_cross_attention_n_heads: int = 0,
    vlm_cross_attention_n_kv_heads: int = 0,
    vision_encoder_feature_dim: int = 0,
    adapter_type: str = "mlp_2layer",
    adapter_hidden_dim: int = 0,
    vision_encoder_type: str = "random",
    vlm_freeze: Any = (),
) -> int:
    """Parameters outside the decoder: cross-attention blocks and adapter.

    Known for the random encoder, which has none, if nothing else is frozen. The
    attentional-pool adapter counts as a linear one, a few million too few. A lower
    bound counts neither encoder nor frozen parts.
    """
    if not vlm:
        return 0
    if any(map(_freezes_more, vlm_freeze)):
        raise Unknown("extra_parameters.frozen", 0)
    queries = vlm_cross_attention_n_heads or heads
    share = (vlm_cross_attention_n_kv_heads or queries) / queries
    attention = round(2 * hidden_size**2 * (1 + share))
    inside = adapter_hidden_dim or hidden_size if adapter_type == "mlp_2layer" else 0
    adapter = (vision_encoder_feature_dim + inside) * (inside or hidden_size)
    found = cross_blocks * (attention + params_ffn + 2 * hidden_size) + adapter
    if vision_encoder_type != "random":
        raise Unknown("extra_parameters.encoder", found)
    return found


def _freezes_more(spec: Any) -> bool:
    frozen = not isinstance(spec, dict) or spec.get("frozen", True)
    return bool(frozen) and spec != {"module": "vision_encoder", "frozen": True}


def estimate_family(
    sharded: bool,
    pp: int,
    vlm: bool,
    moe_layers: int,
    ac_applied: str,
    compile: bool,  # noqa: A002
    compute_bytes: int,
) -> str:
    """The group of measured runs from which the estimate's error is taken.

    No measured GPU run was in fp32. Its error is from steps on the CPU, as for what
    eager blocks keep.
    """
    place = "pipeline" if pp > 1 else "" if sharded else "one GPU"
    model = "VLM" if vlm else "mixture of experts" if moe_layers else ""
    kept = "compiled" if compile else "eager"
    kinds = (
        model,
        "fp32" if compute_bytes > 2 else "",
        "" if ac_applied == "full" else f"kept {kept}",
    )
    return ", ".join(filter(None, (place, *kinds))) or "dense"


def gathered_bytes(
    sharded: bool,
    pp: int,
    ac_applied: str,
    unsharded_gradient_bytes: int,
    compute_bytes: int,
) -> float:
    """Bytes per parameter of a dense block that FSDP holds in its backward pass.

    Its weights and the next block's in bf16, and its gradients in bf16 and fp32. In
    fp32 gradients are reduced without a copy (benchmarks/step_memory.py).
    """
    wide = compute_bytes > 2
    if not sharded:
        return 0
    if pp > 1:
        return 0 if wide else 2
    if unsharded_gradient_bytes:
        return 5
    if wide:
        return 12 if ac_applied == "full" else 8
    return 9 if ac_applied == "full" else 6
