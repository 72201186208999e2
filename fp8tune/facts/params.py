"""Parameters of a decoder, of the whole model and of one rank."""

from __future__ import annotations

from fp8tune.job import Unknown


def attention(hidden_size: int, heads: int, kv_heads: int, head_dim: int) -> int:
    """Weights of one block's attention: Q, K, V and O projections."""
    return 2 * hidden_size * head_dim * (heads + kv_heads)


def ffn(hidden_size: int, ffn_size: int, ffn_matrices: int) -> int:
    """Weights of one dense FFN."""
    return ffn_matrices * hidden_size * ffn_size


def embedding(hidden_size: int, vocab_size: int) -> int:
    """Weights of the embedding, and of an untied head."""
    return hidden_size * vocab_size


def count(
    layers: int,
    dense_ffn_layers: int,
    hidden_size: int,
    tied_embeddings: bool,
    params_attention: int,
    params_ffn: int,
    params_embedding: int,
) -> int:
    """Parameters of the whole model; unknown for mixtures of experts.

    Exact for RMSNorm without QK norm: 8,030,261,248 for Llama-3 8B, as Meta
    publishes it (https://huggingface.co/meta-llama/Meta-Llama-3-8B).
    """
    if dense_ffn_layers != layers:
        raise Unknown("params.count")
    block = params_attention + params_ffn + 2 * hidden_size
    tables = 1 if tied_embeddings else 2
    return layers * block + tables * params_embedding + hidden_size


def moe_ffn(
    hidden_size: int,
    ffn_matrices: int,
    experts: int,
    shared_experts: int,
    expert_size: int,
) -> int:
    """Weights of one mixture of experts: all experts and the router."""
    expert = ffn_matrices * hidden_size * expert_size
    return (experts + shared_experts) * expert + experts * hidden_size


def decoder(
    layers: int,
    moe_layers: int,
    hidden_size: int,
    tied_embeddings: bool,
    params_attention: int,
    params_ffn: int,
    params_moe_ffn: int,
    params_embedding: int,
) -> int:
    """Parameters of a decoder, dense or a mixture of experts.

    Exact for RMSNorm without QK norm and a router without bias. Else a few vectors per
    block are missing.
    """
    blocks = layers * (params_attention + 2 * hidden_size)
    ffns = (layers - moe_layers) * params_ffn + moe_layers * params_moe_ffn
    tables = 1 if tied_embeddings else 2
    return blocks + ffns + tables * params_embedding + hidden_size


def dense_block(
    params_attention: int, params_ffn: int, hidden_size: int, tp: int, block_copies: int
) -> float:
    """Parameters of a dense block on one rank. TP splits all but the norms."""
    split = (params_attention + params_ffn) / tp
    return block_copies * (split + 2 * hidden_size)


def moe_block(
    params_attention: int,
    hidden_size: int,
    ffn_matrices: int,
    experts: int,
    shared_experts: int,
    expert_size: int,
    tp: int,
    ep: int,
) -> float:
    """Parameters of an MoE block on one rank. TP splits attention, EP the experts."""
    expert = ffn_matrices * hidden_size * expert_size
    mixture = (experts / ep + shared_experts) * expert + experts * hidden_size
    return params_attention / tp + mixture + 2 * hidden_size


def tied(
    tied_embeddings: bool, fp8_all_gather: bool = False, fp8_converts_head: bool = False
) -> bool:
    """Whether head and embedding are one parameter during training.

    Not in FP8 with FP8 all-gather: torchao wraps the head's weight in a separate
    parameter (see the rule fp8-unties-embeddings).
    """
    return tied_embeddings and not (fp8_all_gather and fp8_converts_head)


def head(params_embedding: int, params_tied: bool, pp: int, head_shards: int) -> float:
    """Parameters of an untied head on rank 0. With a pipeline rank 0 has none."""
    return 0 if params_tied or pp > 1 else params_embedding / head_shards


def head_gradient(params_embedding: int, pp: int, head_shards: int) -> float:
    """Head parameters with a gradient on rank 0, tied ones included.

    The gradient of a tied head waits for the embedding's. Both are added at the end.
    """
    return 0 if pp > 1 else params_embedding / head_shards


def root(params_embedding: int, params_head: float, hidden_size: int) -> float:
    """Parameters outside the blocks on rank 0, gathered as one group."""
    return params_embedding + params_head + hidden_size


def block(moe_layers: int, params_dense_block: float, params_moe_block: float) -> float:
    """Parameters of the largest block on one rank."""
    return params_moe_block if moe_layers else params_dense_block


def first_block(
    layers: int, moe_layers: int, params_dense_block: float, params_moe_block: float
) -> float:
    """Parameters of the first block on one rank."""
    return params_moe_block if moe_layers == layers else params_dense_block


def period(moe_every: int, params_dense_block: float, params_moe_block: float) -> float:
    """Parameters of a block with experts and the dense ones before it, on one rank."""
    return params_moe_block + (moe_every - 1) * params_dense_block


def rank(
    stage_layers: int,
    moe_layers: int,
    params_dense_block: float,
    params_moe_block: float,
    params_root: float,
    extra_parameters: int,
) -> float:
    """Parameters of rank 0 before FSDP shards them.

    With a pipeline those of the first stage, with dense blocks only.
    """
    dense = (stage_layers - moe_layers) * params_dense_block
    return dense + moe_layers * params_moe_block + params_root + extra_parameters


def padded(params_rank: float, moe_layers: int, expert_padding: int) -> float:
    """Parameters of rank 0, with FSDP's padding of packed experts."""
    return params_rank + moe_layers * expert_padding


def routed_experts(
    hidden_size: int, ffn_matrices: int, experts: int, expert_size: int, ep: int
) -> float:
    """Parameters of one block's experts on one rank, without shared ones."""
    return experts / ep * ffn_matrices * hidden_size * expert_size


def shared_experts(
    hidden_size: int, ffn_matrices: int, shared_experts: int, expert_size: int
) -> float:
    """Parameters of one block's shared experts."""
    return shared_experts * ffn_matrices * hidden_size * expert_size


def expert_group(
    ep: int,
    params_moe_block: float,
    params_attention: int,
    hidden_size: int,
    tp: int,
    expert_padding: int,
) -> float:
    """Parameters that FSDP gathers with a block's experts, and their padding.

    The whole block. With EP all but attention and norms, which are a group before it.
    """
    before = params_attention / tp + 2 * hidden_size if ep > 1 else 0
    return params_moe_block - before + expert_padding


def side_by_side(ep: int, layers: int, moe_layers: int) -> bool:
    """Whether two groups with experts follow each other in FSDP's order."""
    return ep == 1 and 1 < layers == moe_layers


def first_group(
    ep: int,
    layers: int,
    moe_layers: int,
    params_expert_group: float,
    params_moe_block: float,
    params_dense_block: float,
    expert_padding: int,
) -> float:
    """Parameters of the block group that FSDP gathers first and reduces last."""
    if not moe_layers or moe_layers < layers:
        return params_dense_block
    before = params_moe_block + expert_padding - params_expert_group
    return before if ep > 1 else params_expert_group


def group_before_experts(
    ep: int,
    layers: int,
    params_first_group: float,
    params_expert_group: float,
    params_moe_block: float,
    expert_padding: int,
) -> float:
    """Parameters of the group before the experts: block, or with EP attention."""
    if ep > 1:
        return params_moe_block + expert_padding - params_expert_group
    return params_first_group if layers > 1 else 0


def last_group(
    layers: int,
    moe_layers: int,
    moe_every: int,
    params_expert_group: float,
    params_dense_block: float,
) -> float:
    """Parameters of the block group that FSDP gathers last in the forward pass."""
    experts = moe_layers and layers % moe_every == 0
    return params_expert_group if experts else params_dense_block
