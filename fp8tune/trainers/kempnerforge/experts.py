"""Parameters of experts of KempnerForge that are padded or copied, and its routers.

Sources: ``benchmarks/step_memory.py``, the trainer's own steps at commit 5666d0d; files
of that commit in brackets.
"""

from __future__ import annotations


def expert_padding(
    hidden_size: int,
    ffn_matrices: int,
    experts: int,
    expert_size: int,
    ep: int,
    sharded: bool,
    shards: int,
    packed_experts: bool,
) -> int:
    """Parameters that FSDP adds to the packed experts of a block.

    FSDP shards them by their number and pads it to a multiple of the shards
    (``_init_sharded_param`` of torch.distributed.fsdp).
    """
    if not sharded or not packed_experts:
        return 0
    return -(experts // ep) % shards * ffn_matrices * hidden_size * expert_size


def expert_copies(
    params_routed_experts: float, compute_bytes: int, packed_experts: bool
) -> float:
    """Bytes of the stack into which a block copies its unpacked experts.

    For the grouped GEMM (model/moe.py, grouped_expert_forward).
    """
    return 0 if packed_experts else compute_bytes * params_routed_experts


def stacked_bytes(ac_applied: str, moe_layers: int, expert_copies: float) -> float:
    """Bytes of such stacks that all blocks keep for the backward pass.

    The grouped GEMM saves the stack, and FSDP does not free it. With full AC the stack
    is made again.
    """
    return 0 if ac_applied == "full" else moe_layers * expert_copies


def qk_norm_bytes(
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    tp: int,
    model_qk_norm: bool,
) -> float:
    """Bytes per token that query and key norms keep: fp32 inputs and products."""
    values = 8 * (hidden_size + kv_heads * head_dim) + 4 * (heads + kv_heads)
    return values / tp if model_qk_norm else 0


def before_router_bytes(
    hidden_size: int,
    norm_bytes: float,
    attention_bytes: float,
    qk_norm_bytes: float,
    compute_bytes: int,
    model_norm_type: str,
) -> float:
    """Bytes per token that an MoE block computes before its router.

    The result of LayerNorm is kept only for the router.
    """
    result = 0 if model_norm_type == "rmsnorm" else compute_bytes * hidden_size
    return 2 * norm_bytes + attention_bytes + qk_norm_bytes + result


def router_bytes(ac_applied: str, moe_layers: int, before_router_bytes: float) -> float:
    """Bytes per token that an MoE block keeps after its own backward pass.

    With full AC: the module keeps the router's loss of the recomputed block, and with
    it all that was computed before the router (model/router.py).
    """
    return before_router_bytes if ac_applied == "full" and moe_layers else 0
