"""The linear layers of a decoder, as one rank runs them."""

# no future annotations: as strings, they double the import time of a NamedTuple
from typing import NamedTuple

BLOCK = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Linears of a dense gated block, in forward order."""


class Gemm(NamedTuple):
    """One kind of linear layer: M tokens by K inputs to N outputs, on one rank.

    ``copies`` is how many of them one micro-batch runs, over all pipeline stages.
    ``fp8`` says whether the trainer's FP8 mode converts it. ``passes`` are its GEMMs
    of equal size: forward, two backward, and one more if checkpointing repeats it, or
    the share of its copies that are repeated.
    """

    name: str
    m: int
    k: int
    n: int
    copies: int
    fp8: bool
    passes: float

    @property
    def flops(self) -> float:
        """FLOPs of all passes of all copies [FLOP]."""
        return 2.0 * self.m * self.k * self.n * self.copies * self.passes

    @property
    def weights(self) -> int:
        """Weights of all copies on one rank."""
        return self.k * self.n * self.copies


class Decoder(NamedTuple):
    """The sizes of a dense decoder that determine its linears."""

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    ffn_matrices: int
    vocab_size: int
    dense_layers: int


def of_decoder(
    shape: Decoder,
    tokens: int,
    head_tokens: int,
    *,
    tp: int = 1,
    head_tp: int = 1,
    repeated: frozenset[str] = frozenset(),
    fp8_head: bool = True,
) -> tuple[Gemm, ...]:
    """The linears of attention, dense FFNs and head.

    Tensor parallelism splits heads, FFN and vocabulary (Megatron-LM,
    https://arxiv.org/abs/1909.08053). ``repeated`` names those that activation
    checkpointing runs again.
    """
    width = shape.heads * shape.head_dim // tp
    kv = shape.kv_heads * shape.head_dim // tp
    hidden, ffn = shape.hidden_size, shape.ffn_size // tp
    sizes = {
        "q_proj": (hidden, width, shape.layers),
        "k_proj": (hidden, kv, shape.layers),
        "v_proj": (hidden, kv, shape.layers),
        "o_proj": (width, hidden, shape.layers),
        "gate_proj": (hidden, ffn, shape.dense_layers * (shape.ffn_matrices > 2)),
        "up_proj": (hidden, ffn, shape.dense_layers),
        "down_proj": (ffn, hidden, shape.dense_layers),
    }
    block = tuple(
        Gemm(name, tokens, k, n, count, True, 3 + (name in repeated))
        for name, (k, n, count) in sizes.items()
        if count
    )
    columns = shape.vocab_size // head_tp
    return (*block, Gemm("head", head_tokens, hidden, columns, 1, fp8_head, 3))
