"""Bytes per token that KempnerForge's blocks, experts, head and loss keep.

Sources: ``results/activation_bytes.json`` for what a block keeps, eager and compiled;
``benchmarks/step_memory.py`` for what is alive at the peaks of a step, both on the
trainer's own code at commit 5666d0d; its H200 runs (``docs/accuracy.md``).
"""

from __future__ import annotations

from fp8tune.job import Unknown
from fp8tune.trainers.kempnerforge.ffn import kept_values


def norm_bytes(hidden_size: int, model_norm_type: str, compute_bytes: int) -> float:
    """Bytes per token that one norm keeps: fp32 input and product, and the result.

    LayerNorm is a single operation and keeps only its input (model/norm.py).
    """
    each = 8 + compute_bytes if model_norm_type == "rmsnorm" else 1.5 * compute_bytes
    return each * hidden_size


def attention_bytes(hidden_size: int, heads: int, tp: int, compute_bytes: int) -> float:
    """Bytes per token that attention keeps: q, k and v of all heads, output, sums."""
    return (5 * compute_bytes * hidden_size + 4 * heads) / tp


def ffn_bytes(
    ffn_size: int, model_activation: str, tp: int, compute_bytes: int
) -> float:
    """Bytes per token that a dense FFN keeps. Not measured with ReLU."""
    if model_activation == "relu":
        raise Unknown("ffn_bytes", 0)
    return kept_values(ffn_size, model_activation) * compute_bytes / 2 / tp


def activation_bytes(
    ac_applied: str,
    compile: bool,  # noqa: A002
    hidden_size: int,
    ffn_size: int,
    heads: int,
    layers: int,
    moe_layers: int,
    ffn_matrices: int,
    vlm_arch_name: str,
    model_activation: str,
    model_norm_type: str,
    model_qk_norm: bool,
    tp: int,
    sequence_parallel: bool,
    norm_bytes: float,
    attention_bytes: float,
    ffn_bytes: float,
    expert_bytes: float,
    compute_bytes: int,
) -> float:
    """Bytes per token that one block keeps for the backward pass, on average.

    Full AC keeps the block's input. With sequence parallelism the first block's input
    is unsplit, as the embedding returns it. Selective AC wraps only the attention
    module, so norms (computed in fp32) and FFN keep their activations. Exact in eager
    mode. Measured on the CPU for compiled blocks, where the compiler recomputes a part.

    Tensor parallelism splits everything except the inputs that linears gather. Each
    linear keeps its own gathered input instead of what the norm returned. Norms are
    also unsplit where the sequence is unsplit. With selective AC torch 2.13 does not
    compile it there. If this is unknown, the value under full AC is a lower bound.
    """
    split = tp if sequence_parallel else 1
    whole = (1 - 1 / split) / layers
    least = compute_bytes * hidden_size * (1 / split + whole)
    if ac_applied == "full":
        return least
    if (model_norm_type, model_qk_norm) != ("rmsnorm", False):
        raise Unknown("activation_bytes.norm", least)
    if compile:
        if moe_layers or vlm_arch_name:
            raise Unknown("activation_bytes.compiled", least)
        if tp > 1 and ac_applied == "selective":
            raise Unknown("activation_bytes.split", least)
        if model_activation != "silu":
            raise Unknown("activation_bytes.activation", least)
        if ac_applied == "selective":
            return compute_bytes * (4 * hidden_size + 3 * ffn_size)
        whole = (2 if sequence_parallel else 4) * hidden_size if tp > 1 else 0
        kept = (9 * hidden_size - whole + 3 * ffn_size) / tp + whole
        return compute_bytes * kept + 4 * heads / tp
    ffn = ((layers - moe_layers) * ffn_bytes + moe_layers * expert_bytes) / layers
    selective = ac_applied == "selective"
    inside = 0 if selective else attention_bytes
    own = 2 * norm_bytes / split + inside + ffn
    if not sequence_parallel:
        return own
    inputs = ffn_matrices - 1 + (0 if selective else 3)
    replaced = (1 if selective else 2) / tp
    return own + compute_bytes * (inputs - replaced) * hidden_size


def dense_block_bytes(
    ac_applied: str,
    layers: int,
    moe_layers: int,
    activation_bytes: float,
    ffn_bytes: float,
    expert_bytes: float,
) -> float:
    """Bytes per token that one dense block keeps for the backward pass."""
    more = 0 if ac_applied == "full" else expert_bytes - ffn_bytes
    return activation_bytes - moe_layers / layers * more


def expert_block_bytes(
    ac_applied: str, dense_block_bytes: float, ffn_bytes: float, expert_bytes: float
) -> float:
    """Bytes per token that one block with experts keeps for the backward pass."""
    more = 0 if ac_applied == "full" else expert_bytes - ffn_bytes
    return dense_block_bytes + more


def cross_bytes(
    cross_blocks: int,
    hidden_size: int,
    norm_bytes: float,
    attention_bytes: float,
    ffn_bytes: float,
    compute_bytes: int,
    vlm_visual_tokens: int = 0,
    vlm_max_text_len: int = 1,
) -> float:
    """Bytes per text token that cross-attention blocks keep. AC never wraps them.

    Their keys and values belong to the image tokens (model/cross_attention.py).
    """
    images = (
        2 * compute_bytes * hidden_size * (vlm_visual_tokens / vlm_max_text_len - 1)
    )
    return cross_blocks * (2 * norm_bytes + attention_bytes + ffn_bytes + images)


def spare_bytes(
    ac_applied: str,
    compile: bool,  # noqa: A002
    precision: str,
    hidden_size: int,
    ffn_size: int,
    layers: int,
    moe_layers: int,
) -> float:
    """Bytes per token of all blocks' activations that may not be kept.

    The compiler keeps them for FP8 blocks on the CPU. Published runs without AC need no
    more than in bf16 (https://github.com/pytorch/torchtitan/pull/778).
    """
    if ac_applied == "full" or not compile or precision != "fp8" or moe_layers:
        return 0
    norms = 6 if ac_applied == "none" else 4
    return layers * (norms * hidden_size + 2 * ffn_size)


def head_bytes(
    norm_bytes: float,
    hidden_size: int,
    compile: bool,  # noqa: A002
    sequence_parallel: bool,
    tp: int,
    compute_bytes: int,
) -> float:
    """Bytes per token that final norm and head keep. If compiled, no fp32 copies.

    With sequence parallelism the head gathers its input.
    """
    own = 2 * compute_bytes * hidden_size if compile else norm_bytes
    return own / tp + compute_bytes * hidden_size if sequence_parallel else own


def logit_bytes(
    train_loss_fn: str,
    train_ce_chunk_size: int,
    train_z_loss_weight: float,
    head_tokens: int,
    compute_bytes: int,
) -> float:
    """Bytes per token and vocabulary entry in the backward pass of the loss.

    8 for bf16 logits, log-probabilities and a gradient of each. Chunks save little: the
    gradient of each chunk is as large as all logits, and only the log-probabilities of
    one chunk are freed when the second is added. Uneven chunks are counted as no
    chunks.

    The z-loss adds fp32 copies: 20. In fp32 it adds none (training/loss.py,
    benchmarks/results/loss_bytes.md).
    """
    if train_loss_fn not in ("cross_entropy", "chunked_cross_entropy"):
        raise Unknown("logit_bytes")
    if train_z_loss_weight > 0:
        return 20
    chunk = train_ce_chunk_size if train_ce_chunk_size > 0 else 4096
    chunked = train_loss_fn != "cross_entropy" and chunk < head_tokens
    gone = chunk / head_tokens if chunked and head_tokens % chunk == 0 else 0
    return compute_bytes * (4 - gone)


def held_logit_bytes(compute_bytes: int) -> int:
    """Bytes per token and vocabulary entry that stay until the next micro-batch.

    The training loop keeps a reference to the logits (scripts/train.py).
    """
    return compute_bytes


def new_logit_bytes(tp: int, sequence_parallel: bool, compute_bytes: int) -> float:
    """Bytes per token and vocabulary entry of new logits.

    With sequence parallelism the rank's own part, all parts as they were gathered, and
    the joined logits (Replicate in distributed/tensor_parallel.py).
    """
    return compute_bytes * ((2 + 1 / tp) if sequence_parallel else 1)
