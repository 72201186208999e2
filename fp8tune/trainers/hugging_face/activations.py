"""What one rank holds per token under transformers' Trainer (``shared``).

Bytes per token are closed forms of the tensors that a block of transformers saves for
its backward pass. Under autocast each linear gets a copy of its weight in bf16, and
with fp32 weights the residual stream and the norms are fp32 too.

Source: transformers 5.23.0, models/llama/modeling_llama.py and loss/loss_utils.py.
"""

from __future__ import annotations

BF16, FP32 = 2, 4


def residual_bytes(sharded: bool, weight_bytes: int) -> int:
    """Bytes of a value in the residual stream."""
    return BF16 if sharded else weight_bytes


def cast_bytes(residual_bytes: int, precision: str, te_recipe: str = "") -> int:
    """Bytes per parameter of the copies of linears that autocast makes.

    torchao's linears cast fp32 weights to FP8, so they have no copy in bf16.
    Transformer Engine keeps each in FP8, as it is and transposed
    (https://github.com/NVIDIA/TransformerEngine/issues/1429).
    """
    if te_recipe and precision == "fp8":
        return 2
    return BF16 if residual_bytes == FP32 and precision == "bf16" else 0


def block_bytes(
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    qk_norm: bool,
    residual_bytes: int,
    moe_layers: int,
    expert_bytes: float,
) -> float:
    """Bytes per token that an eager block saves for its backward pass.

    Two norms, each with its input and, if that is not bf16, a cast for every linear;
    queries, keys, values and the output of attention; gate, its activation, up, and
    their product, or what router and experts save. Norms of queries and keys keep them
    in fp32 and in bf16.
    """
    queries, pairs = heads * head_dim, kv_heads * head_dim
    whole = residual_bytes == FP32
    norms = (22 if whole else 16) * hidden_size + 2 * FP32
    attention = 4 * queries + 4 * pairs + FP32 * heads
    if qk_norm:
        attention += 6 * (queries + pairs) + FP32 * (heads + kv_heads)
    ffn = 8 * ffn_size + (2 * BF16 * hidden_size if whole else 0)
    return norms + attention + (expert_bytes if moe_layers else ffn)


def activation_bytes(
    ac_applied: str,
    eager: bool,
    hidden_size: int,
    residual_bytes: int,
    block_bytes: float,
) -> float:
    """Bytes per token that one block keeps: with full AC its input."""
    return (
        block_bytes if eager and ac_applied == "none" else residual_bytes * hidden_size
    )


def fp8_cast_bytes(
    precision: str,
    compile: bool,  # noqa: A002
    hidden_size: int,
    ffn_size: int,
    te_recipe: str = "",
) -> int:
    """Bytes per token of casts to FP8 in the FFN's backward pass.

    Eager casts of torchao scale and clamp in fp32; compiled ones write FP8 alone.
    """
    if precision != "fp8":
        return 0
    fused = compile or te_recipe
    return hidden_size + ffn_size if fused else 7 * hidden_size + 9 * ffn_size


def recompute_bytes(
    ac_applied: str,
    hidden_size: int,
    residual_bytes: int,
    ffn_size: int,
    block_bytes: float,
    fp8_cast_bytes: int,
) -> float:
    """Bytes per token of one block in its backward pass, beyond what it kept.

    What full AC computes again, the gradient of its output, and in the FFN those of
    gate, activation and up, less the product.
    """
    gradients = residual_bytes * hidden_size + 4 * ffn_size + fp8_cast_bytes
    if ac_applied == "none":
        return gradients
    kept = residual_bytes * hidden_size if residual_bytes == FP32 else 0
    return block_bytes - kept + gradients


def logit_bytes() -> int:
    """Bytes per token and vocabulary entry in the backward pass of the loss.

    Log-probabilities and two gradients, all in fp32.
    """
    return 3 * FP32


def new_logit_bytes() -> int:
    """Bytes per token and vocabulary entry at the end of the forward pass.

    Logits in bf16, in fp32, and their log-probabilities.
    """
    return BF16 + 2 * FP32


def head_bytes(
    hidden_size: int,
    residual_bytes: int,
    block_tokens: int,
    memory_tables_bytes: float,
) -> float:
    """Bytes per token of the final norm in the loss, and of the tables beside it.

    The norm's input in fp32, its output and its cast.
    """
    norm = FP32 + 2 * (FP32 if residual_bytes == FP32 else BF16)
    return norm * hidden_size + memory_tables_bytes / block_tokens
