"""What the VLM sections of a KempnerForge config build, train and freeze.

Every public function is a name of the job, as in ``job.py``.

Source: KempnerForge at commit 5666d0d, files named in each docstring.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.job import Unknown

COMPONENTS = ("transformer", "adapter", "vision_encoder")
"""Attributes of the VLM wrapper that hold parameters (model/vlm.py)."""

RANDOM_TOKENS, RANDOM_FEATURES = 16, 768
"""What the random encoder falls back to (model/vision.py, _build_random)."""


def vlm_cross_heads(vlm_cross_attention_n_heads: int, heads: int) -> int:
    """Query heads of a cross-attention block (config/vlm.py, resolved_heads)."""
    return vlm_cross_attention_n_heads or heads


def vlm_cross_kv_heads(
    vlm_cross_attention_n_kv_heads: int, vlm_cross_heads: int
) -> int:
    """Key/value heads of a cross-attention block; the default is plain MHA."""
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
    """Whether MoT's attention puts text before the image, in its causal order.

    Streams are joined in the order of the list (model/mot.py).
    """
    order = list(vlm_mot_modalities)
    return order.index("text") < order.index("image")


def vlm_moma_swapped(vlm_moma_modalities: Any) -> bool:
    """Whether MoMa's experts get tokens of another modality than their name.

    Image tokens go to the first group, text tokens to the second (model/moma.py,
    model/vlm.py MoMaStrategy).
    """
    return list(vlm_moma_modalities)[:2] != ["image", "text"]


def vlm_features(vision_encoder_type: str, vision_encoder_feature_dim: int) -> int:
    """Feature size that the adapter sees; known for the random encoder at least."""
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
    """Fewest positions of a sample while the encoder is still to be asked [tokens].

    The random encoder has 16 tokens where the file says none, another one at least
    one per frame; a pooling adapter leaves at least one (distributed/parallel.py,
    _build_vlm checks the resolved number).
    """
    if vision_encoder_num_tokens > 0:
        raise Unknown("vision_encoder.num_tokens")
    if vlm_arch_name == "cross_attention":
        return vlm_max_text_len
    plain = vision_encoder_type == "random" and adapter_type in ("mlp_2layer", "linear")
    return vlm_max_text_len + vlm_frames * (RANDOM_TOKENS if plain else 1)


def vlm_frozen(vlm_freeze: Any, vlm_module_patterns: Any) -> list[str]:
    """Components whose every parameter is frozen at build (training/freeze.py)."""
    frozen: set[str] = set()
    _apply(vlm_freeze, vlm_module_patterns, frozen)
    return [name for name in COMPONENTS if name in frozen]


def vlm_decoder_trains(vlm_freeze: Any, vlm_module_patterns: Any) -> bool:
    """Whether nothing of the language model can be frozen at build."""
    return not any(
        _may_reach(pattern, "transformer")
        for name, frozen in _specs(vlm_freeze)
        for pattern in _patterns(name, vlm_module_patterns)
        if frozen
    )


def vlm_idle_from(
    vlm_freeze: Any,
    vlm_freeze_schedule: Any,
    vlm_module_patterns: Any,
    vision_encoder_type: str,
    max_steps: int,
) -> int:
    """First step after which no parameter trains, 0 from the start, -1 for never.

    The random encoder has no parameters. Stages act when their step is reached
    (scripts/train.py, FreezeStage hook).
    """
    frozen = {"vision_encoder"} if vision_encoder_type == "random" else set()
    _apply(vlm_freeze, vlm_module_patterns, frozen)
    if len(frozen) == len(COMPONENTS):
        return 0
    for step, specs in _reached(vlm_freeze_schedule, max_steps):
        _apply(specs, vlm_module_patterns, frozen)
        if vision_encoder_type == "random":
            frozen.add("vision_encoder")
        if len(frozen) == len(COMPONENTS):
            return step
    return -1


def vlm_never_trained(
    vlm_frozen: list[str],
    vlm_freeze: Any,
    vlm_freeze_schedule: Any,
    vlm_module_patterns: Any,
    vision_encoder_type: str,
    max_steps: int,
) -> list[str]:
    """Modules that a stage unfreezes although the optimizer never got them.

    ``build_optimizer`` takes the parameters that are trainable at build
    (training/optimizer.py); the schedule only flips ``requires_grad``.
    """
    state = dict(_specs(vlm_freeze))
    found: dict[str, None] = {}
    for _, specs in _reached(vlm_freeze_schedule, max_steps):
        for name, frozen in _specs(specs):
            held = state.get(name, False) or _inside(
                name, vlm_module_patterns, vlm_frozen
            )
            empty = name == "vision_encoder" and vision_encoder_type == "random"
            if held and not frozen and not empty:
                found[name] = None
    return list(found)


def vlm_idle_stages(vlm_freeze_schedule: Any, max_steps: int) -> list[int]:
    """Start steps of freeze stages that a fresh run never applies.

    The hook compares after a step is counted: the first step it sees is 1, and at
    the last one nothing is trained any more (scripts/train.py).
    """
    steps = [step for step, _ in _stages(vlm_freeze_schedule)]
    return [step for step in steps if not 0 < step < max_steps]


def _specs(specs: Any) -> Iterator[tuple[str, bool]]:
    for spec in specs:
        if not isinstance(spec, dict) or not isinstance(spec.get("module"), str):
            raise Unknown("vlm.freeze")
        yield spec["module"], bool(spec.get("frozen", True))


def _patterns(name: str, patterns: Any) -> list[str]:
    if not isinstance(patterns, dict):
        raise Unknown("vlm.module_patterns")
    return [str(pattern) for pattern in patterns.get(name, [name])]


def _apply(specs: Any, patterns: Any, frozen: set[str]) -> None:
    """Apply freeze specs to whole components; what frees a part frees the whole."""
    for name, freeze in _specs(specs):
        for pattern in _patterns(name, patterns):
            for component in COMPONENTS:
                whole = pattern in ("*", f"{component}*", f"{component}.*")
                if freeze and whole:
                    frozen.add(component)
                elif not freeze and (whole or _may_reach(pattern, component)):
                    frozen.discard(component)


def _may_reach(pattern: str, component: str) -> bool:
    head = pattern.partition(".")[0]
    return head == component or "*" in head or "?" in head or "[" in head


def _inside(name: str, patterns: Any, components: list[str]) -> bool:
    """Whether a module lies inside the components."""
    return all(
        pattern.partition(".")[0] in components for pattern in _patterns(name, patterns)
    )


def _reached(schedule: Any, max_steps: int) -> Iterator[tuple[int, Any]]:
    """The stages that a fresh run applies, in order."""
    for step, specs in _stages(schedule):
        if 0 < step < max_steps:
            yield step, specs


def _stages(schedule: Any) -> Iterator[tuple[int, Any]]:
    for stage in schedule:
        if not isinstance(stage, dict) or not isinstance(stage.get("start_step"), int):
            raise Unknown("vlm.freeze_schedule")
        yield stage["start_step"], stage.get("specs", ())
