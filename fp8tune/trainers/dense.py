"""Fields of dense decoders that FSDP2 shards, for several trainers (``shared``).

A trainer's own modules replace what differs. Degrees that a trainer does not have are
1; mixtures of experts and pipelines have no memory model.

Source: torch.distributed.fsdp of torch 2.10, and the trainers' own files.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown, Words


def is_run(job: Job) -> bool:
    """Whether the file describes a run: if it sets anything."""
    return bool(job.written)


def moe_layers(layers: int, dense_ffn_layers: int) -> int:
    """Blocks with a mixture of experts as their FFN."""
    return layers - dense_ffn_layers


def experts_break_compile(moe_layers: int) -> bool:
    """Whether the model has MoE blocks, at which torch.compile breaks its graph."""
    return moe_layers > 0


def tp() -> int:
    """Tensor-parallel degree: none, if no key says it."""
    return 1


def pp() -> int:
    """Pipeline stages: one, if no key says it."""
    return 1


def dp_ranks(dp_replicate: int, dp_shard: int) -> int:
    """Ranks that get different sequences."""
    return dp_replicate * dp_shard


def shards(dp_shard: int, cp: int) -> int:
    """Ranks that share one copy of the weights: FSDP shards over CP ranks too."""
    return dp_shard * cp


def sequence_parallel(tp: int) -> bool:
    """Whether TP also splits norms and residual stream: always."""
    return tp > 1


def head_shards(tp: int) -> int:
    """Ranks over which the output head is split."""
    return tp


def reduces_each_micro_batch() -> bool:
    """Whether FSDP reduces the gradients of each micro-batch: always."""
    return True


def fp8_tokens(micro_batch: int, seq_len: int, cp: int) -> tuple[int, ...]:
    """M of the FP8 linears on one rank [tokens]."""
    return (micro_batch * seq_len // cp,)


def ac_usable(ac_modes: tuple[str, ...]) -> tuple[str, ...]:
    """AC modes with which the backward pass works."""
    return ac_modes


def ac_applied(ac: str) -> str:
    """AC mode that is applied: every mode wraps blocks."""
    return Words(ac)


def ac_attention_only() -> bool:
    """Whether AC wraps only the attention modules: never."""
    return False


def lower_bounds() -> dict[str, Any]:
    """Values of unknown facts with which the peak is a lower bound: none."""
    return {}


def stage_layers(layers: int, pp: int) -> int:
    """Blocks of the first pipeline stage; not known with a pipeline."""
    if pp > 1:
        raise Unknown("stage_layers")
    return layers


def in_flight(pp: int) -> int:
    """Micro-batches with activations on the first stage."""
    if pp > 1:
        raise Unknown("stage_layers")
    return 1


def head_tokens(block_tokens: int) -> int:
    """Tokens of one micro-batch with logits."""
    return block_tokens


def block_copies() -> int:
    """Copies of a block's weights: one."""
    return 1


def cross_blocks() -> int:
    """Number of cross-attention blocks: none."""
    return 0


def cross_bytes() -> int:
    """Bytes per token that cross-attention blocks keep: none."""
    return 0


def extra_parameters() -> int:
    """Parameters outside the decoder: none."""
    return 0


def optimizer_bytes(optimizer: str, weight_bytes: int) -> int:
    """Bytes per parameter of Adam's two moments, in the weights' dtype."""
    if str(optimizer).lower() not in ("adam", "adamw"):
        raise Unknown("optimizer_bytes")
    return 2 * weight_bytes


def optimizer_temporary_bytes(fused: bool) -> int:
    """Bytes that a step allocates for one matrix: none with the fused kernel."""
    if not fused:
        raise Unknown("optimizer_temporary_bytes", 0)
    return 0


def gradient_bytes(weight_bytes: int) -> int:
    """Bytes per parameter of reduced gradients: the weights' dtype."""
    return weight_bytes


def kept_gradient_bytes() -> int:
    """Bytes per parameter of gradients that outlive the step: none."""
    return 0


def reduce_bytes() -> int:
    """Bytes per parameter of a buffer for the reduce-scatter: in ``gathered_bytes``."""
    return 0


def init_bytes() -> int:
    """Bytes per parameter before sharding: the model is built on the meta device."""
    return 0


def held_logit_bytes() -> int:
    """Bytes per token and vocabulary entry after the loss: none."""
    return 0


def new_logit_bytes() -> int:
    """Bytes per token and vocabulary entry of new logits: less than in the loss."""
    return 0


def norm_bytes() -> float:
    """Bytes per token that one norm keeps: counted with its block."""
    return 0


def spare_bytes() -> int:
    """Bytes per token of the peak that may not be kept."""
    return 0


def dense_block_bytes(activation_bytes: float) -> float:
    """Bytes per token that a dense block keeps."""
    return activation_bytes


def moe_every() -> int:
    """Every how many blocks one has experts: memory is for dense models."""
    return 1


def balanced_routing() -> dict[str, int]:
    """Facts of balanced routing: there is none."""
    return {}


def router_bytes() -> int:
    """Bytes per token that an MoE block keeps after its backward pass: none."""
    return 0


def expert_copies() -> int:
    """Copies of expert weights: none."""
    return 0


def stacked_bytes() -> int:
    """Bytes of stacked expert weights: none."""
    return 0


def expert_padding() -> int:
    """Padding of packed experts: none."""
    return 0


def expert_block_bytes() -> int:
    """Bytes per token that a block with experts keeps: there is none."""
    return 0


def expert_work() -> dict[str, float]:
    """Bytes per token of a block with experts beyond what it keeps: there is none."""
    return dict.fromkeys(("forward", "before", "beside", "after"), 0.0)


def memory_expert_instants(moe_layers: int) -> dict[str, dict[str, float]]:
    """Instants of blocks with experts: a dense model has none."""
    if moe_layers:
        raise Unknown("memory.experts")
    return {}
