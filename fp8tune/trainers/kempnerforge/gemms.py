"""The linear layers of a KempnerForge model, as one rank runs them.

Source: KempnerForge at commit 5666d0d, files named in each docstring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp8tune.job import Unknown, known

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm


def gemms(
    fp8_tokens: tuple[int, ...],
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    ffn_matrices: int,
    layers: int,
    dense_ffn_layers: int,
    vocab_size: int,
    tied_embeddings: bool,
    tp: int,
    cp: int,
    ac_applied: str,
    vlm_arch_name: str,
    expert_gemms: tuple[Gemm, ...],
) -> tuple[Gemm, ...]:
    """Every linear of the decoder. FP8 skips only experts and routers.

    Tensor parallelism does not split the head in tied and MoE models
    (distributed/tensor_parallel.py, distributed/parallel.py apply_float8). Known for
    text runs, joint decoders and MoMa, without their vision encoder and adapter.
    """
    if cp > 1:
        raise Unknown("speed.cp")
    if vlm_arch_name not in ("", "joint_decoder", "moma"):
        raise Unknown("speed.vlm")
    from fp8tune.facts.linears import Decoder, of_decoder

    shape = Decoder(
        layers,
        hidden_size,
        heads,
        kv_heads,
        head_dim,
        ffn_size,
        ffn_matrices,
        vocab_size,
        dense_ffn_layers,
    )
    found = of_decoder(
        shape,
        fp8_tokens[0],
        fp8_tokens[-1],
        tp=tp,
        head_tp=1 if tied_embeddings or expert_gemms else tp,
        repeated=frozenset(_repeated(ac_applied)),
    )
    return (*found[:-1], *expert_gemms, found[-1])


def _repeated(ac: str) -> tuple[str, ...]:
    """Linears that AC runs again: all of a module but its last (apply_ac)."""
    from fp8tune.facts.linears import BLOCK

    modes = {"none": (), "full": BLOCK[:-1], "selective": BLOCK[:3]}
    return known("ac", modes.get(ac))


def expert_gemms(
    fp8_tokens: tuple[int, ...],
    hidden_size: int,
    ffn_matrices: int,
    expert_size: int,
    moe_layers: int,
    experts: int,
    ep: int,
    ac_applied: str,
    vlm_arch_name: str,
    model_moe_top_k: int,
    shared_experts: int,
    vlm_moma_experts: tuple[tuple[int, int], ...] | None = None,
) -> tuple[Gemm, ...]:
    """GEMMs of routers and experts, all in bf16, with balanced routing (model/moe.py).

    Unbalanced routing costs more, because groups are padded to the largest.
    """
    if not moe_layers:
        return ()
    from fp8tune.facts.linears import Gemm, of_experts

    size = (hidden_size, expert_size, ffn_matrices)
    if vlm_arch_name == "moma":
        groups = known("vlm_moma_experts", vlm_moma_experts)
        return sum((of_experts(m, *size, moe_layers * n) for m, n in groups), ())

    passes = 3 + (ac_applied == "full")
    tokens = fp8_tokens[0]
    routed = tokens * model_moe_top_k * ep // experts
    router = Gemm("router", tokens, hidden_size, experts, moe_layers, False, passes)
    found = (
        router,
        *of_experts(
            tokens, *size, moe_layers * shared_experts, name="shared", passes=passes
        ),
        *of_experts(routed, *size, moe_layers * experts // ep, passes=passes),
    )
    return tuple(gemm for gemm in found if gemm.copies)


def vlm_moma_experts(
    fp8_tokens: tuple[int, ...],
    vlm_moma_experts_per_modality: dict[str, int],
    vlm_moma_capacity_factor: float,
) -> tuple[tuple[int, int], ...]:
    """Tokens of one expert and number of experts, per modality (model/moma.py).

    Each expert picks a share of its modality's tokens, 1 / experts by default.
    """
    experts = dict(vlm_moma_experts_per_modality)
    counts = [experts.get(name, 0) for name in ("image", "text")]
    tokens = (fp8_tokens[0] - fp8_tokens[-1], fp8_tokens[-1])
    return tuple(
        (round(some * (vlm_moma_capacity_factor or 1 / count)), count)
        for some, count in zip(tokens, counts, strict=True)
    )


def attention_passes(
    ac_applied: str,
    cp: int,
    vlm_arch_name: str,
    data_pack_sequences: bool,
    model_sdpa_backend: str = "auto",
) -> float:
    """Forward passes of attention that a step costs (distributed/parallel.py).

    Both AC modes repeat attention. Unknown with a mask (packed sequences and VLMs), and
    for the math backend, which is not a fused kernel.
    """
    if cp > 1:
        raise Unknown("speed.cp")
    if vlm_arch_name:
        raise Unknown("speed.vlm")
    if data_pack_sequences:
        raise Unknown("speed.packed")
    if model_sdpa_backend == "math":
        raise Unknown("speed.math")
    return 4.5 if ac_applied in ("full", "selective") else 3.5
