"""What Transformer Engine asks of FP8 linears and of the packages beside it.

A linear is checked as one rank holds it. Its input is a matrix of tokens by K, its
weight one of N by K. In the forward pass K must divide by 16 and the tokens by 8; the
backward pass turns all of them into leading dimensions of a GEMM, which must divide by
16. MXFP8 has blocks of 32 values along both dimensions. A rule of its own checks
whole sizes that are no multiple of 16, for all FP8 linears (``fp8.``).

Source: TransformerEngine 2.x, pytorch/utils.py (``assert_dim_for_fp8_exec``),
common/gemm/cublaslt_gemm.cu and common/recipe; NVIDIA/TransformerEngine#232, #1422.
"""

from __future__ import annotations

from fp8tune.job import Unknown, Words, known

ALIGNMENT = 16
FIRST = {"mxfp8": 2.01, "current": 2.02, "block": 2.03}
"""The first release with a recipe, as ``te.version`` writes it.

From Megatron-LM's own floors, core/fp8_utils.py.
"""


def multiple(te_recipe: str) -> int:
    """What K and N must divide by on each rank: 32 with MXFP8, else 16."""
    return 32 if te_recipe == "mxfp8" else 16


def odd_size(
    te_multiple: int,
    hidden_size: int = 0,
    ffn_size: int = 0,
    dense_ffn_layers: int = 0,
    heads: int = 0,
    head_dim: int = 0,
    tp: int = 1,
    multi_latent_attention: bool = False,
    kv_heads: int = 0,
    kv_apart: bool = False,
) -> str:
    """The first size that is no multiple on one rank, though 16 divides it whole.

    Tensor parallelism splits the FFN and the heads, not the hidden size. Keys and
    values count where they are linears apart from the queries'.
    """
    attention = 0 if multi_latent_attention else heads * head_dim
    sizes = (
        ("hidden size", hidden_size, 1),
        ("FFN size", ffn_size if dense_ffn_layers else 0, tp),
        ("width of attention", attention, tp),
        ("key/value width", kv_heads * head_dim * kv_apart, tp),
    )
    for name, size, ranks in sizes:
        whole = size % ALIGNMENT == 0 and size % ranks == 0
        if whole and (size // ranks) % te_multiple:
            split = f" / {ranks} ranks = {size // ranks}" if ranks > 1 else ""
            return Words(f"{name} {size}{split}")
    return Words("")


def token_ranks(tp: int = 1, sequence_parallel: bool = False) -> int:
    """Ranks over which sequence parallelism splits the tokens of a micro-batch."""
    return tp if sequence_parallel else 1


def token_multiple(te_recipe: str) -> int:
    """What the tokens of one rank must divide by: 32 with MXFP8, else 8."""
    return 32 if te_recipe == "mxfp8" else 8


def odd_tokens(
    fp8_tokens: tuple[int, ...],
    te_token_ranks: int,
    te_token_multiple: int,
    fp8_tokens_vary: bool = False,
) -> str:
    """The tokens of a micro-batch if those of a rank are no multiple, in words.

    Empty if 16 does not divide them: ``fp8.unaligned_tokens`` are these.
    """
    if fp8_tokens_vary:
        raise Unknown("fp8_tokens.vary")
    tokens, ranks = fp8_tokens[0], te_token_ranks
    if tokens % ALIGNMENT or not tokens % (ranks * te_token_multiple):
        return Words("")
    split = f" over {ranks} ranks = {tokens / ranks:g}" if ranks > 1 else ""
    return Words(f"{tokens} tokens{split}")


def release(transformer_engine_release: str = "") -> str:
    """Release of Transformer Engine that is pinned or installed."""
    return Words(known("transformer_engine", transformer_engine_release or None))


def version(te_release: str) -> float:
    """Release of Transformer Engine as a number: 2.03 is 2.3, 2.15 is 2.15."""
    return _as_number(te_release)


def newest(te_release: str = "", transformer_engine_at_most: str = "") -> float:
    """Newest release of Transformer Engine that may be there, as a number."""
    release = te_release or transformer_engine_at_most
    return _as_number(known("transformer_engine", release or None))


def too_old(te_recipe: str, te_version: float) -> bool:
    """Whether this release of Transformer Engine does not have the recipe yet."""
    return te_version < FIRST.get(te_recipe, 0.0)


def cuda_release(nvidia_cuda_runtime_cu12_release: str = "") -> str:
    """Release of CUDA 12 that torch brings."""
    return Words(known("cuda", nvidia_cuda_runtime_cu12_release or None))


def cuda(te_cuda_release: str) -> float:
    """Release of CUDA 12 as a number: 12.06 is 12.6."""
    return _as_number(te_cuda_release)


def _as_number(release: str) -> float:
    """The first two parts of a release as a number that compares: 2.9 is 2.09."""
    first, _, rest = release.partition(".")
    second = rest.partition(".")[0]
    if not first.isdigit() or not (second or "0").isdigit():
        raise Unknown("release")
    return int(first) + int(second or 0) / 100
