"""Which weights Muon leaves to AdamW, whose state is twice as large.

Source: KempnerForge at commit 5666d0d, training/optimizer.py, _is_muon_eligible.
"""

from __future__ import annotations

ASPECT = 10
"""Matrices with a longer side more than so many times the shorter go to AdamW."""


def adam_share(
    params_rank: float,
    params_embedding: int,
    params_head: float,
    vocab_size: int,
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    ffn_matrices: int,
    experts: int,
    expert_size: int,
    stage_layers: int,
    moe_layers: int,
    block_copies: int,
    tp: int,
    ep: int,
    model_moe_packed_experts: bool,
) -> float:
    """Share of rank 0's parameters that Muon leaves to AdamW.

    By the shape of the whole matrix; that of packed experts is their number by the
    rest. Norms and routers are too small to count.
    """
    column = block_copies * stage_layers * hidden_size / tp
    own = experts // ep if model_moe_packed_experts else 0
    inside = ffn_matrices * hidden_size * moe_layers * experts / ep * expert_size
    matrices = (
        (params_embedding + params_head, vocab_size, hidden_size),
        (2 * column * heads * head_dim, hidden_size, heads * head_dim),
        (2 * column * kv_heads * head_dim, hidden_size, kv_heads * head_dim),
        (
            column * ffn_matrices * ffn_size * (1 - moe_layers / stage_layers),
            hidden_size,
            ffn_size,
        ),
        (inside, own or hidden_size, hidden_size * expert_size if own else expert_size),
    )
    left = sum(size for size, *sides in matrices if max(sides) > ASPECT * min(sides))
    return left / params_rank
