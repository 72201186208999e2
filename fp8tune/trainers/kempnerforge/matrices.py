"""The weight matrices of a rank, and what an optimizer's step makes of each.

Source: KempnerForge at commit 5666d0d, training/optimizer.py.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
from typing import NamedTuple

ASPECT = 10
"""Matrices with a longer side more than so many times the shorter go to AdamW."""


class Matrix(NamedTuple):
    """A kind of weight matrix: parameters on rank 0, the whole, and its local shard."""

    parameters: float
    rows: int
    columns: int
    shard_rows: int
    shard_columns: float

    @property
    def for_muon(self) -> bool:
        """Whether Muon takes it, by the shape of the whole (_is_muon_eligible)."""
        sides = (self.rows, self.columns)
        return max(sides) <= ASPECT * min(sides)


def weight_matrices(
    hidden_size: int,
    vocab_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    ffn_matrices: int,
    experts: int,
    shared_experts: int,
    expert_size: int,
    stage_layers: int,
    moe_layers: int,
    block_copies: int,
    params_head: float,
    tp: int,
    ep: int,
    head_shards: int,
    shards: int,
    packed_experts: bool,
) -> tuple[Matrix, ...]:
    """Kinds of weight matrices: parameters on rank 0, rows, columns, and a shard's.

    TP splits columns of the down and output projections, rows of the others, and
    nothing of experts and embedding. FSDP splits rows. Packed experts count as their
    number by the rest. Norms and routers are too small to count.
    """
    blocks = block_copies * stage_layers
    dense = block_copies * (stage_layers - moe_layers)
    queries, keys = heads * head_dim, kv_heads * head_dim
    own = experts // ep
    alone = moe_layers * (shared_experts + (0 if packed_experts else own))
    packed = moe_layers * ffn_matrices if own and packed_experts else 0
    kinds = (
        (1, vocab_size, hidden_size, 1, 1),
        (1 if params_head else 0, vocab_size, hidden_size, head_shards, 1),
        (blocks, queries, hidden_size, tp, 1),
        (blocks, hidden_size, queries, 1, tp),
        (2 * blocks, keys, hidden_size, tp, 1),
        (dense * (ffn_matrices - 1), ffn_size, hidden_size, tp, 1),
        (dense, hidden_size, ffn_size, 1, tp),
        (alone * (ffn_matrices - 1), expert_size, hidden_size, 1, 1),
        (alone, hidden_size, expert_size, 1, 1),
        (packed, own, hidden_size * expert_size, 1, 1),
    )
    return tuple(
        Matrix(
            count * rows * columns / (split * across),
            rows,
            columns,
            -(-rows // (split * shards)),
            columns / across,
        )
        for count, rows, columns, split, across in kinds
        if count
    )


def adam_share(
    params_rank: float, params_padded: float, weight_matrices: tuple[Matrix, ...]
) -> float:
    """Share of rank 0's parameters that Muon leaves to AdamW, with their padding."""
    left = sum(m.parameters for m in weight_matrices if not m.for_muon)
    return (left + params_padded - params_rank) / params_padded


def optimizer_temporary_bytes(
    optimizer: str,
    optimizer_fused: bool,
    weight_bytes: int,
    weight_matrices: tuple[Matrix, ...],
) -> float:
    """Most bytes that an optimizer step allocates for one matrix at a time.

    Muon: fp32 copies, and products of rows by rows, because it never transposes
    (_newton_schulz). The others: copies of the largest matrix, three in Lion, two in
    schedule-free AdamW and in unfused AdamW, which loops over the weights
    (torch.optim.adamw).
    """
    if optimizer == "muon":
        return 4 * max(_newton_schulz(m) for m in weight_matrices)
    copies = {"adamw": 0 if optimizer_fused else 2, "lion": 3, "schedule_free_adamw": 2}
    largest = max(m.shard_rows * m.shard_columns for m in weight_matrices)
    return weight_bytes * largest * copies.get(optimizer, 0)


def _newton_schulz(matrix: Matrix) -> float:
    """Values alive at most: gradient, iterate and five products, or three more sums."""
    if not matrix.for_muon:
        return 0
    whole = matrix.shard_rows * matrix.shard_columns
    product = matrix.shard_rows**2
    return max(5 * product + 2 * whole, 2 * product + 5 * whole)
