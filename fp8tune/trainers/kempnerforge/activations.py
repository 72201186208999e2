"""Bytes per token that KempnerForge's blocks, experts, head and loss keep.

Sources: ``benchmarks/activation_bytes.py`` for what a block keeps, eager and compiled;
``benchmarks/step_memory.py`` for what is alive at the peaks of a step, both on the
trainer's own code at commit 5666d0d; its H200 runs (``docs/accuracy.md``).
"""

from __future__ import annotations

from fp8tune.job import Unknown


def norm_bytes(hidden_size: int, model_norm_type: str, compute_bytes: int) -> float:
    """Bytes per token that one norm keeps: fp32 input and product, and the result.

    LayerNorm is one operation and keeps its input alone (model/norm.py).
    """
    each = 8 + compute_bytes if model_norm_type == "rmsnorm" else 1.5 * compute_bytes
    return each * hidden_size


def attention_bytes(hidden_size: int, heads: int, tp: int, compute_bytes: int) -> float:
    """Bytes per token that attention keeps: q, k and v of all heads, output, sums."""
    return (5 * compute_bytes * hidden_size + 4 * heads) / tp


def ffn_bytes(
    ffn_size: int, model_activation: str, tp: int, compute_bytes: int
) -> float:
    """Bytes per token that a dense FFN keeps; with ReLU not measured."""
    return _ffn(ffn_size, model_activation) * compute_bytes / 2 / tp


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
    one = _ffn(expert_size, model_activation)
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


def _ffn(size: int, activation: str) -> int:
    if activation == "relu":
        raise Unknown("ffn_bytes")
    return (8 if activation == "silu" else 4) * size


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

    Full AC keeps the block's input. Selective AC wraps the attention module alone:
    norms (computed in fp32) and FFN stay. Exact in eager mode; compiled on the CPU,
    where the compiler recomputes part of it. Tensor parallelism splits all but the
    inputs that linears gather, each its own, in place of what the norm returned; or
    norms where the sequence is whole. With selective AC torch 2.13 does not compile it
    there.
    """
    split = tp if sequence_parallel else 1
    if ac_applied == "full":
        return compute_bytes * hidden_size / split
    if (model_norm_type, model_qk_norm) != ("rmsnorm", False):
        raise Unknown("activation_bytes.norm")
    if compile:
        if moe_layers or vlm_arch_name:
            raise Unknown("activation_bytes.compiled")
        if tp > 1 and ac_applied == "selective":
            raise Unknown("activation_bytes.split")
        if model_activation != "silu":
            raise Unknown("activation_bytes.activation")
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
    """Bytes per text token that cross-attention blocks keep: AC never wraps them.

    Their keys and values are of the image tokens (model/cross_attention.py).
    """
    images = (
        2 * compute_bytes * hidden_size * (vlm_visual_tokens / vlm_max_text_len - 1)
    )
    return cross_blocks * (2 * norm_bytes + attention_bytes + ffn_bytes + images)


def expert_recompute_bytes(
    expert_rows: int,
    hidden_size: int,
    expert_size: int,
    model_activation: str,
    compute_bytes: int,
) -> float:
    """Bytes per token that the experts of a block compute again, with gradients."""
    matrices = compute_bytes * _matrices(model_activation)
    return expert_rows * (matrices * expert_size + 2 * hidden_size)


def _matrices(activation: str) -> int:
    """Values of FFN size per row, gradients of half of them among them."""
    return 6 if activation == "silu" else 3


def recompute_bytes(
    ac_applied: str,
    compile: bool,  # noqa: A002
    hidden_size: int,
    ffn_size: int,
    moe_layers: int,
    kv_heads: int,
    head_dim: int,
    model_qk_norm: bool,
    model_activation: str,
    tp: int,
    sequence_parallel: bool,
    norm_bytes: float,
    attention_bytes: float,
    expert_recompute_bytes: float,
    compute_bytes: int,
) -> float:
    """Bytes per token of one block in its backward pass, beyond what it kept.

    With full AC all that it computes again, and gradients of half its FFN; a compiled
    block has no fp32 copies and reuses buffers (not measured: bounded by the trainer's
    run of 7B on 2 GPUs). Without AC the gradients alone.
    """
    each = compute_bytes
    gathered = each / 2 * _gathered(hidden_size, tp, sequence_parallel)
    if model_qk_norm:
        gathered += 8 * (hidden_size + kv_heads * head_dim) / tp
    if ac_applied != "full":
        return each * (2 * ffn_size / tp + hidden_size) + gathered
    if moe_layers:
        return expert_recompute_bytes + 2 * norm_bytes + attention_bytes + gathered
    if compile:
        split = tp if sequence_parallel else 1
        return each * (4 * ffn_size / tp + 7 * hidden_size / split) + gathered
    norms = 2 * norm_bytes / (tp if sequence_parallel else 1)
    ffn = each * _matrices(model_activation) * ffn_size / tp
    return ffn + norms + attention_bytes + gathered


def _gathered(hidden: int, tp: int, sequence_parallel: bool) -> float:
    """What tensor parallelism gathers and reduces in the backward pass of a block."""
    if tp == 1:
        return 0
    return 11 * hidden if sequence_parallel else 4.5 * hidden


def spare_bytes(
    ac_applied: str,
    compile: bool,  # noqa: A002
    precision: str,
    hidden_size: int,
    ffn_size: int,
    layers: int,
    expert_size: int,
    expert_rows: int,
    balanced_rows: int,
    moe_layers: int,
    model_activation: str,
) -> float:
    """Bytes per token of the peak that may not be there: the band's low end lacks them.

    What balanced routing would save of the experts' rows: of one MoE block and its
    gradients with full AC, else of all. And what the compiler saves of FP8 blocks on
    the CPU, of all: published runs without AC need as much as in bf16
    (https://github.com/pytorch/torchtitan/pull/778).
    """
    if moe_layers:
        kept = _ffn(expert_size, model_activation) + 2 * hidden_size
        blocks = 1.5 if ac_applied == "full" else moe_layers
        return blocks * (expert_rows - balanced_rows) * kept
    if not compile or precision != "fp8" or ac_applied == "full":
        return 0
    norms = 6 if ac_applied == "none" else 4
    return layers * (norms * hidden_size + 2 * ffn_size)


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
    ffn = dense * compute_bytes * _matrices(model_activation) * ffn_size / tp
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


def head_bytes(
    norm_bytes: float,
    hidden_size: int,
    compile: bool,  # noqa: A002
    sequence_parallel: bool,
    tp: int,
    compute_bytes: int,
) -> float:
    """Bytes per token that final norm and head keep; compiled, no fp32 copies.

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
    """Bytes per token and vocabulary entry while the loss is differentiated.

    bf16 logits, log-probabilities and a gradient of each: 8. Chunks hardly help: the
    gradient of each is as large as all logits, and one chunk of log-probabilities alone
    is gone when the second is added; uneven chunks are taken as none. z-loss adds fp32
    copies: 20; in fp32 it has none (training/loss.py, benchmarks/loss_bytes.py).
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
    """The training loop holds on to the logits until the next (scripts/train.py)."""
    return compute_bytes


def new_logit_bytes(tp: int, sequence_parallel: bool, compute_bytes: int) -> float:
    """Bytes per token and vocabulary entry when the logits are there.

    With sequence parallelism the rank's own part, all parts as they were gathered, and
    put together (Replicate in distributed/tensor_parallel.py).
    """
    return compute_bytes * ((2 + 1 / tp) if sequence_parallel else 1)
