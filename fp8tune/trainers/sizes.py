"""Fields that follow from a table of known models, for several trainers (``shared``).

A trainer's own ``sizes`` is the table's entry: ``dim``, ``layers``, ``heads``,
``kv_heads``, ``head_dim``, ``ffn``, ``vocab`` and ``norm_eps``, and what only some
models have. ``mla`` stands for latent attention, which has no key/value heads.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Unknown, Words, known


def hidden_size(sizes: dict[str, Any]) -> int:
    """Width of the residual stream."""
    return int(sizes["dim"])


def layers(sizes: dict[str, Any]) -> int:
    """Transformer blocks."""
    return int(sizes["layers"])


def heads(sizes: dict[str, Any]) -> int:
    """Query heads."""
    return int(sizes["heads"])


def kv_heads(sizes: dict[str, Any]) -> int:
    """Key/value heads; unknown with latent attention, which has none."""
    if "mla" in sizes:
        raise Unknown("latent_attention")
    return int(sizes["kv_heads"])


def head_dim(sizes: dict[str, Any]) -> int:
    """Size of one attention head; unknown with latent attention, which has several."""
    if "mla" in sizes:
        raise Unknown("latent_attention")
    return int(known("head_dim", sizes.get("head_dim")))


def ffn_size(sizes: dict[str, Any]) -> int:
    """Width of a dense FFN; unknown where every block has experts."""
    return int(known("ffn_size.experts", sizes.get("ffn")))


def ffn_matrices() -> int:
    """Linears of one FFN: gated in every model of the tables."""
    return 3


def activation() -> str:
    """Activation of the FFN."""
    return Words("silu")


def vocab_size(sizes: dict[str, Any]) -> int:
    """Rows of the embedding."""
    return int(sizes["vocab"])


def max_seq_len(seq_len: int) -> int:
    """Length of the position table: rotary positions are as long as the run's."""
    return seq_len


def rope_theta(sizes: dict[str, Any]) -> float:
    """Base of the rotary positions."""
    return float(known("rope_theta", sizes.get("rope_theta")))


def norm_eps(sizes: dict[str, Any]) -> float:
    """Epsilon of the norms."""
    return float(sizes["norm_eps"])


def qk_norm(sizes: dict[str, Any]) -> bool:
    """Whether queries and keys are normalised per head."""
    return bool(sizes.get("qk_norm", False))


def tied_embeddings(sizes: dict[str, Any]) -> bool:
    """Whether head and embedding share one weight."""
    return bool(sizes.get("tied", False))


def experts(sizes: dict[str, Any]) -> int:
    """Experts per MoE block, 0 for a dense model."""
    return int(sizes.get("experts", 0))


def expert_size(sizes: dict[str, Any]) -> int:
    """Width of one expert's FFN."""
    return int(sizes.get("expert", 0))


def shared_experts(sizes: dict[str, Any]) -> int:
    """Experts per MoE block that process every token."""
    return int(sizes.get("shared", 0))


def top_k(sizes: dict[str, Any]) -> int:
    """Experts per token."""
    return int(sizes.get("top_k", 0))
