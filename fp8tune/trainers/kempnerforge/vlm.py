"""What the VLM sections of a KempnerForge config build.

Every public function is a name of the job, as in ``job.py``.

Source: KempnerForge at commit 5666d0d, files named in each docstring.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Unknown

RANDOM_TOKENS, RANDOM_FEATURES = 16, 768
"""What the random encoder falls back to (model/vision.py, _build_random)."""


def vlm_cross_heads(vlm_cross_attention_n_heads: int, heads: int) -> int:
    """Query heads of a cross-attention block (config/vlm.py, resolved_heads)."""
    return vlm_cross_attention_n_heads or heads


def vlm_cross_kv_heads(
    vlm_cross_attention_n_kv_heads: int, vlm_cross_heads: int
) -> int:
    """Key/value heads of a cross-attention block; by default as many as heads."""
    return vlm_cross_attention_n_kv_heads or vlm_cross_heads


def vlm_cross_q_size(hidden_size: int, vlm_cross_heads: int) -> int:
    """N of a cross-attention block's Q projection (model/cross_attention.py)."""
    return hidden_size // vlm_cross_heads * vlm_cross_heads


def vlm_cross_kv_size(
    hidden_size: int, vlm_cross_heads: int, vlm_cross_kv_heads: int
) -> int:
    """N of a cross-attention block's K and V projections."""
    return hidden_size // vlm_cross_heads * vlm_cross_kv_heads


def vlm_text_first(vlm_mot_modalities: Any) -> bool:
    """Whether MoT puts text before the image in its causal attention.

    Modalities are joined in the order of the list (model/mot.py).
    """
    order = list(vlm_mot_modalities)
    return order.index("text") < order.index("image")


def vlm_moma_swapped(vlm_moma_modalities: Any) -> bool:
    """Whether MoMa's experts get the tokens of another modality.

    Image tokens go to the first group, text tokens to the second (model/moma.py,
    model/vlm.py MoMaStrategy).
    """
    return list(vlm_moma_modalities)[:2] != ["image", "text"]


def vlm_features(vision_encoder_type: str, vision_encoder_feature_dim: int) -> int:
    """Feature size that the adapter gets; known at least for the random encoder."""
    if vision_encoder_feature_dim > 0:
        return vision_encoder_feature_dim
    if vision_encoder_type != "random":
        raise Unknown("vision_encoder.feature_dim")
    return RANDOM_FEATURES


def vlm_probed_positions(
    vlm_arch_name: str,
    vlm_max_text_len: int,
    vlm_frames: int,
    vision_encoder_type: str,
    vision_encoder_num_tokens: int,
    adapter_type: str,
) -> int:
    """Fewest positions of a sample if the encoder decides its tokens [tokens].

    The random encoder has 16 tokens by default, another one at least one per frame. A
    pooling adapter leaves at least one (distributed/parallel.py, _build_vlm checks the
    resolved number).
    """
    if vision_encoder_num_tokens > 0:
        raise Unknown("vision_encoder.num_tokens")
    if vlm_arch_name == "cross_attention":
        return vlm_max_text_len
    plain = vision_encoder_type == "random" and adapter_type in ("mlp_2layer", "linear")
    return vlm_max_text_len + vlm_frames * (RANDOM_TOKENS if plain else 1)
