"""What ``starter.toml`` needs beyond the sizes of a model and its settings."""

from __future__ import annotations

from typing import Any

from fp8tune.trainers.torchtitan import models
from fp8tune.trainers.torchtitan.precision import LINEAR
from fp8tune.trainers.torchtitan.releases import LENIENT

SIZES = {
    "hidden_size": "dim",
    "layers": "layers",
    "heads": "heads",
    "kv_heads": "kv_heads",
    "ffn_size": "ffn",
    "vocab_size": "vocab",
    "rope_theta": "rope_theta",
}
"""Sizes of a published model, and what a flavor calls them."""

FLOAT8 = """
[quantize.linear.float8]
enable_fsdp_float8_all_gather = true
precompute_float8_dynamic_scale_for_fsdp = true
filter_fqns = ["output"]
"""


def fields(version: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the texts to fill in; none if the release has no such model."""
    found = _flavor(version, given)
    if found is None or version == LENIENT:
        return {}
    fp8 = given["precision"] == "fp8"
    rows = given["micro_batch"] * given["grad_accum"] * given["world_size"]
    return {
        "version": version,
        "model_name": found[0],
        "flavor": found[1],
        "converters": f'["{LINEAR[0]}"]' if fp8 else "[]",
        "float8": FLOAT8 if fp8 else "",
        "global_batch": rows,
        "ac_mode": "selective" if given["ac"] == "op" else given["ac"],
    }


def _flavor(version: str, given: dict[str, Any]) -> tuple[str, str] | None:
    """The dense model and flavor with these sizes."""
    for name in models.DECODERS:
        for flavor in models.flavors(version, name).values():
            sizes = {field: flavor.get(key) for field, key in SIZES.items()}
            plain = "attention" not in flavor and not flavor.get("experts")
            if plain and all(given[field] == size for field, size in sizes.items()):
                return name, str(flavor["name"])
    return None
