"""The linear layers of a decoder, as one rank runs them."""

# no future annotations: as strings, they double the import time of a NamedTuple
from collections.abc import Iterable
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


class Linear(NamedTuple):
    """One kind of linear that is converted: a weight of N rows by K columns.

    ``split`` is what tensor parallelism divides: ``rows``, ``columns`` or nothing.
    """

    name: str
    rows: int
    columns: int
    split: str = ""

    def on_rank(self, tp: int) -> tuple[float, float]:
        """Rows and columns of the weight on one tensor-parallel rank."""
        by_rows, by_columns = self.split == "rows", self.split == "columns"
        return (
            self.rows / tp if by_rows else self.rows,
            self.columns / tp if by_columns else self.columns,
        )


def of_block(
    hidden: int, queries: int, pairs: int, ffn: int, vocab: int
) -> tuple[Linear, ...]:
    """The linears of a decoder's block and its head; of width 0 those it has not."""
    found = (
        Linear("q_proj", queries, hidden, "rows"),
        Linear("k_proj", pairs, hidden, "rows"),
        Linear("v_proj", pairs, hidden, "rows"),
        Linear("o_proj", hidden, queries, "columns"),
        Linear("gate_proj", ffn, hidden, "rows"),
        Linear("up_proj", ffn, hidden, "rows"),
        Linear("down_proj", hidden, ffn, "columns"),
        Linear("head", vocab, hidden, "rows"),
    )
    return tuple(one for one in found if one.rows and one.columns)


def odd(linears: Iterable[Linear], multiple: int, tp: int = 1) -> tuple[str, str]:
    """The first linear with a size on one rank that is no multiple: its name, and why.

    Both are empty if there is none.
    """
    for one in linears:
        whole = (("outputs", one.rows), ("inputs", one.columns))
        for (what, size), part in zip(whole, one.on_rank(tp), strict=True):
            if part % multiple:
                split = f" / {tp} TP ranks = {part:g}" if part != size else ""
                return one.name, f"{one.name} has {size} {what}{split}"
    return "", ""


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
    fused: bool = False,
) -> tuple[Gemm, ...]:
    """The linears of attention, dense FFNs and head.

    Tensor parallelism splits heads, FFN and vocabulary (Megatron-LM,
    https://arxiv.org/abs/1909.08053). ``repeated`` names those that activation
    checkpointing runs again. ``fused``: queries, keys and values are one linear, gate
    and up another.
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
    if fused:
        into = (shape.ffn_matrices - 1) * ffn
        sizes = {
            "qkv_proj": (hidden, width + 2 * kv, shape.layers),
            "o_proj": sizes["o_proj"],
            "up_proj": (hidden, into, shape.dense_layers),
            "down_proj": sizes["down_proj"],
        }
    block = tuple(
        Gemm(name, tokens, k, n, count, True, 3 + (name in repeated))
        for name, (k, n, count) in sizes.items()
        if count
    )
    columns = shape.vocab_size // head_tp
    return (*block, Gemm("head", head_tokens, hidden, columns, 1, fp8_head, 3))


def of_experts(
    tokens: int,
    hidden: int,
    width: int,
    matrices: int,
    count: int,
    *,
    name: str = "expert",
    fp8: bool = False,
    fused: bool = False,
    passes: float = 3,
) -> tuple[Gemm, ...]:
    """The linears of ``count`` experts of one kind, each with so many tokens."""
    into = matrices - 1
    copies, columns = (count, into * width) if fused else (count * into, width)
    return (
        Gemm(f"{name}_in", tokens, hidden, columns, copies, fp8, passes),
        Gemm(f"{name}_out", tokens, width, hidden, count, fp8, passes),
    )
