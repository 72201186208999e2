"""What a mixture of experts of KempnerForge keeps, computes and is padded by.

Sources: ``benchmarks/step_memory.py``, the trainer's own steps at commit 5666d0d; files
of that commit in brackets.
"""

from __future__ import annotations

from fp8tune.job import Unknown
from fp8tune.trainers.kempnerforge.ffn import computed_values, kept_values


def expert_rows(experts: int, moe_layers: int) -> int:
    """Rows that a rank's experts compute per token while routing has collapsed.

    Every expert is padded to the longest (model/moe.py, grouped_expert_forward), and a
    fresh model sends all tokens to the same experts. Expert parallelism divides the
    experts, but each rank then receives the tokens of all.
    """
    return experts if moe_layers else 0


def balanced_rows(expert_rows: int, model_moe_top_k: int) -> int:
    """Rows per token if every expert got as many tokens."""
    return min(expert_rows, model_moe_top_k)


def expert_padding(
    hidden_size: int,
    ffn_matrices: int,
    experts: int,
    expert_size: int,
    ep: int,
    sharded: bool,
    shards: int,
    model_moe_packed_experts: bool,
) -> int:
    """Parameters that FSDP adds to the packed experts of a block.

    It shards them by their number, and fills that up to a multiple of the shards
    (``_init_sharded_param`` of torch.distributed.fsdp).
    """
    if not sharded or not model_moe_packed_experts:
        return 0
    return -(experts // ep) % shards * ffn_matrices * hidden_size * expert_size


def padding_bytes(ep: int, layers: int, moe_layers: int, ac_applied: str) -> int:
    """Bytes of each such parameter in the backward pass of experts.

    Of weights in bf16, and of the next block's if that has experts too. With full AC
    another block's gradients are reduced meanwhile, in fp32; without it the experts of
    that one are gone.
    """
    if ep > 1 or moe_layers < layers:
        return 2
    return 8 if ac_applied == "full" else 4


def late_padding_bytes(ep: int, layers: int, moe_layers: int) -> int:
    """Bytes of each such parameter when the gradients of experts are reduced.

    In fp32, beside their own weights and the next experts' in bf16; fewer where EP's
    attention or a dense block is gathered in between.
    """
    return 8 - 2 * (ep > 1) - 2 * (moe_layers < layers)


def expert_bytes(
    hidden_size: int,
    expert_size: int,
    expert_rows: int,
    shared_experts: int,
    model_activation: str,
    model_moe_top_k: int,
    compute_bytes: int,
) -> float:
    """Bytes per token that a mixture of experts keeps: padded rows, and sorted tokens.

    In fp32 experts run one after the other, which was not measured (model/moe.py).
    """
    if expert_rows and compute_bytes > 2:
        raise Unknown("expert_bytes")
    one = kept_values(expert_size, model_activation)
    chosen = compute_bytes * model_moe_top_k * hidden_size
    return expert_rows * (one + 2 * hidden_size) + shared_experts * one + chosen


def stacked_bytes(
    ac_applied: str,
    hidden_size: int,
    ffn_matrices: int,
    experts: int,
    expert_size: int,
    moe_layers: int,
    ep: int,
    compute_bytes: int,
    model_moe_packed_experts: bool,
) -> int:
    """Bytes of experts that all blocks keep whole for the backward pass.

    Those that are not packed are stacked for the grouped product, which saves the
    stack, and FSDP does not free it (model/moe.py, grouped_expert_forward). With full
    AC it is made again.
    """
    if ac_applied == "full" or model_moe_packed_experts:
        return 0
    own = experts // ep * ffn_matrices * hidden_size * expert_size
    return compute_bytes * moe_layers * own


def expert_recompute_bytes(
    expert_rows: int,
    hidden_size: int,
    expert_size: int,
    model_activation: str,
    compute_bytes: int,
) -> float:
    """Bytes per token that the experts of a block compute again, with gradients."""
    matrices = compute_bytes * computed_values(model_activation)
    return expert_rows * (matrices * expert_size + 2 * hidden_size)


def passing_bytes(
    ac_applied: str,
    ffn_size: int,
    layers: int,
    moe_layers: int,
    model_activation: str,
    tp: int,
    ep: int,
    expert_bytes: float,
    expert_recompute_bytes: float,
    compute_bytes: int,
) -> float:
    """Bytes per token of experts that are gone when their gradients are reduced.

    What they computed again, less a dense FFN that is computed again meanwhile; or what
    they kept, by the average of all blocks.
    """
    if ac_applied != "full":
        return expert_bytes * moe_layers / layers
    dense = moe_layers < layers and ep == 1
    ffn = dense * compute_bytes * computed_values(model_activation) * ffn_size / tp
    return max(0, expert_recompute_bytes - ffn)


def router_bytes(
    ac_applied: str,
    moe_layers: int,
    norm_bytes: float,
    attention_bytes: float,
) -> float:
    """Bytes per token that an MoE block keeps after its own backward pass.

    With full AC: the router's loss of the recomputed block stays on the module, and
    with it all that was computed before the router (model/router.py).
    """
    return (
        2 * norm_bytes + attention_bytes if ac_applied == "full" and moe_layers else 0
    )
