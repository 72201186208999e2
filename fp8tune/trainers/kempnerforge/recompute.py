"""Bytes per token of one KempnerForge block in its backward pass, beyond what it kept.

Of eager blocks under full AC every tensor that is alive at the peak, by the allocations
of the trainer's own steps at commit 5666d0d; their peaks are recorded
(``benchmarks/step_memory.py``).
"""

from __future__ import annotations

FP32 = 4
NORM_VALUES = 6
"""fp32 values while RMSNorm is differentiated: its input and five of its gradient.

The gradients of the product and of the mean, and of the square the power, its multiple
and their product (model/norm.py).
"""


def recomputed_bytes(
    hidden_size: int,
    tp: int,
    sequence_parallel: bool,
    norm_bytes: float,
    attention_bytes: float,
    qk_norm_bytes: float,
    compute_bytes: int,
) -> float:
    """Bytes per token that an eager block with full AC recomputes before its FFN.

    With sequence parallelism q, k and v each gather their input, and what the norms
    return is not kept in addition.
    """
    inside = attention_bytes + qk_norm_bytes
    if not sequence_parallel:
        return 2 * norm_bytes + inside
    value = compute_bytes * hidden_size
    return 2 * (norm_bytes - value) / tp + inside + 3 * value


def ffn_backward_bytes(
    hidden_size: int,
    ffn_size: int,
    ffn_matrices: int,
    tp: int,
    sequence_parallel: bool,
    compute_bytes: int,
) -> float:
    """Bytes per token that such a block's FFN adds, the most of three moments.

    In the backward pass of its last linear: what the FFN kept, and a gradient. Then:
    outputs of its linears and of the activation, and as many gradients. With sequence
    parallelism all linears but the last have gathered their input, and the last the
    gradient of its output.

    Before that, while the last input is gathered, it exists twice, as received and
    joined, in addition to the residual stream and what the norm returned.
    """
    inputs = ffn_matrices - 1
    wide = compute_bytes * ffn_size / tp
    last, then = (2 * inputs + 1) * wide, 3 * inputs * wide
    if not sequence_parallel:
        return max(last, then)
    value = compute_bytes * hidden_size
    gathered, own = inputs * value, 2 * value / tp
    gathering = 2 * (inputs - 1) * wide + 2 * value + own
    return gathered + max(gathering, last + value, then)


def norm_backward_bytes(
    hidden_size: int,
    tp: int,
    sequence_parallel: bool,
    norm_bytes: float,
    model_norm_type: str,
) -> float:
    """Bytes per token that the FFN's norm adds in its backward pass.

    The FFN is freed by then, and so is what the norm kept. In fp32 except for
    LayerNorm, which is a single operation.
    """
    if model_norm_type != "rmsnorm":
        return 0
    split = tp if sequence_parallel else 1
    return (NORM_VALUES * FP32 * hidden_size - norm_bytes) / split


def kept_backward_bytes(
    hidden_size: int,
    ffn_size: int,
    ffn_matrices: int,
    tp: int,
    sequence_parallel: bool,
    compute_bytes: int,
) -> float:
    """Bytes per token that a block that kept its FFN adds, in eager mode.

    The incoming gradient, and the FFN's gradients beyond what it kept. With sequence
    parallelism the incoming gradient is gathered and exists twice at first.
    """
    value, inputs = compute_bytes * hidden_size, ffn_matrices - 1
    wide = compute_bytes * ffn_size / tp
    if not sequence_parallel:
        return value + inputs * wide
    return value / tp + max(2 * value, value + wide, inputs * wide)


def recompute_bytes(
    ac_applied: str,
    compile: bool,  # noqa: A002
    hidden_size: int,
    ffn_size: int,
    tp: int,
    sequence_parallel: bool,
    recomputed_bytes: float,
    ffn_backward_bytes: float,
    norm_backward_bytes: float,
    kept_backward_bytes: float,
    qk_norm_bytes: float,
    compute_bytes: int,
) -> float:
    """Bytes per token of one dense block in its backward pass, beyond what it kept.

    With full AC all that it recomputes, and gradients of its FFN or of the norm before
    it. A compiled block has no fp32 copies and reuses buffers (not measured: bounded by
    the trainer's run of 7B on 2 GPUs). Without AC only the gradients.
    """
    if not compile and ac_applied == "full":
        return recomputed_bytes + max(ffn_backward_bytes, norm_backward_bytes)
    if not compile:
        return kept_backward_bytes + qk_norm_bytes
    gathered = compute_bytes / 2 * _gathered(hidden_size, tp, sequence_parallel)
    gathered += qk_norm_bytes
    if ac_applied != "full":
        return compute_bytes * (2 * ffn_size / tp + hidden_size) + gathered
    split = tp if sequence_parallel else 1
    return compute_bytes * (4 * ffn_size / tp + 7 * hidden_size / split) + gathered


def _gathered(hidden: int, tp: int, sequence_parallel: bool) -> float:
    """What tensor parallelism gathers for a compiled block (not measured)."""
    if tp == 1:
        return 0
    return 11 * hidden if sequence_parallel else 4.5 * hidden


def other_instants(
    ac_applied: str,
    compile: bool,  # noqa: A002
    sharded: bool,
    hidden_size: int,
    pp: int,
    tp: int,
    sequence_parallel: bool,
    moe_layers: int,
    vlm: bool,
    model_norm_type: str,
    activation_bytes: float,
    recompute_bytes: float,
    gathered_bytes: float,
    reduce_bytes: int,
    unsharded_gradient_bytes: int,
    compute_bytes: int,
) -> list[tuple[float, float]]:
    """How other moments of eager blocks differ, per token and per weight of one.

    For dense text models. In VLMs fewer tokens reach the head, which was not traced.
    With full AC the last block has the gradient of its output in addition to all
    inputs. The others have fewer inputs, but FSDP's buffer for the gradients of the
    block after.

    Without AC the final norm's backward pass runs while everything is kept, and only
    the last block's weights are gathered. The block before the last has that buffer,
    and one block less is kept.
    """
    if compile or pp > 1 or moe_layers or vlm:
        return []
    split = tp if sequence_parallel else 1
    buffer = 0 if unsharded_gradient_bytes else reduce_bytes
    if ac_applied == "full":
        return [(compute_bytes * hidden_size / split, -buffer)]
    norm = NORM_VALUES * FP32 * hidden_size if model_norm_type == "rmsnorm" else 0
    released = gathered_bytes - compute_bytes if sharded else 0
    return [(norm / split - recompute_bytes, -released), (-activation_bytes, buffer)]
