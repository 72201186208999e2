"""Lower bounds of what the memory model of KempnerForge does not cover.

A mask, an encoder and the like only add memory, so that a run without them shows what
the whole needs at least. ``Unknown`` carries such a bound for a single value; here are
those of several at once.
"""

from __future__ import annotations

from typing import Any

UNTRAINED = (
    "optimizer_bytes",
    "gradient_bytes",
    "kept_gradient_bytes",
    "unsharded_gradient_bytes",
    "accumulated_gradient_bytes",
    "reduce_bytes",
    "gathered_bytes",
    "activation_bytes",
    "cross_bytes",
    "recompute_bytes",
)
"""What frozen parts may do without, as facts that are 0 then."""

UNROUTED = (
    "expert_rows",
    "arriving_rows",
    "expert_copies",
    "stacked_bytes",
    "reduce_bytes",
)
"""What is known of other mixtures of experts, but not of MoMa's."""


def lower_bounds(
    vlm_arch_name: str,
    vlm_decoder_trains: bool = False,
    vlm_moma_experts_per_modality: Any = None,
) -> dict[str, Any]:
    """Values of unknown facts with which the peak is a lower bound.

    Of a decoder that may be frozen only weights and logits count, because some part
    before the logits trains in any run. MoMa has all its experts, but their activations
    are not counted.
    """
    found: dict[str, Any] = {}
    if vlm_arch_name == "moma":
        experts = sum(dict(vlm_moma_experts_per_modality).values())
        found |= {**dict.fromkeys(UNROUTED, 0), "experts": experts}
        found["balanced_routing"] = {}
    if vlm_arch_name and not vlm_decoder_trains:
        found |= {**dict.fromkeys(UNTRAINED, 0), "other_instants": []}
    return found
