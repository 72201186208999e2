"""What is known of a model by its name or its ``config.json`` (``shared``).

A ``model_path`` names a local folder, relative to where the trainer runs, or a model of
the hub. Nothing is downloaded: ``models.toml`` knows some of the hub's models.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from fp8tune.job import Unknown, known
from fp8tune.trainers.about import read_toml

MAX_BYTES = 1024 * 1024
"""Largest file that is read; configs of models have a few KB."""

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""What model families call the number of experts."""

MOE = ("mixtral", "qwen2_moe", "qwen3_moe")
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", *MOE)
"""Families whose blocks are alike: attention and a gated FFN, or experts, in each."""

MOST = 2**24
"""Largest size of a model that is taken for one."""


def published(name: str) -> dict[str, Any] | None:
    """Return the sizes of a model of the hub; ``None`` if they are not known."""
    return _published().get(name)


def local_config(model_path: str) -> dict[str, Any]:
    """The config of a model in a local folder, or of a known one of the hub."""
    if sizes := published(model_path):
        return {"model_type": sizes["family"], "num_experts": sizes.get("experts", 0)}
    return _read(model_path)


def _read(folder: str) -> dict[str, Any]:
    """Return what the ``config.json`` in a folder says of the language model."""
    path = os.path.join(folder, "config.json")
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_BYTES:
            raise Unknown("model.sizes")
        with open(path, encoding="utf-8") as file:
            found = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        raise Unknown("model.sizes") from None
    if not isinstance(found, dict):
        raise Unknown("model.sizes")
    text = found.get("text_config")  # of models that also see or hear
    return found | text if isinstance(text, dict) else found


@cache
def _published() -> dict[str, dict[str, Any]]:
    """Return the known models of the hub by their names."""
    models = read_toml("models.toml")["model"]
    return {name: model for model in models for name in model["names"]}


def sizes(model_path: Any = None) -> dict[str, Any]:
    """Sizes of the model, as ``models.toml`` has them."""
    if not isinstance(model_path, str) or not model_path:
        raise Unknown("model.unnamed")
    return published(model_path) or config_sizes(_read(model_path))


def config_sizes(config: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes that a ``config.json`` says; raises ``Unknown`` for others."""
    family = config.get("model_type")
    if family not in FAMILIES or "vision_config" in config:
        raise Unknown("model.family")
    dim, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    default = 128 if family.startswith("qwen3") else dim // heads
    found = {
        "family": family,
        "dim": dim,
        "layers": _size(config, "num_hidden_layers"),
        "heads": heads,
        "kv_heads": _size(config, "num_key_value_heads", heads),
        "head_dim": _size(config, "head_dim", default),
        "vocab": _size(config, "vocab_size"),
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "tied": config.get("tie_word_embeddings") is True,
        "qk_norm": family.startswith("qwen3"),
    }
    if family not in MOE:
        return found | {"ffn": _size(config, "intermediate_size")}
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        raise Unknown("model.family")
    width = "intermediate_size" if family == "mixtral" else "moe_intermediate_size"
    expert = _size(config, width)
    shared = _size(config, "shared_expert_intermediate_size", 0)
    return found | {
        "experts": known("model.sizes", model_experts(config) or None),
        "expert": expert,
        "shared": shared // expert,
        "top_k": _size(config, "num_experts_per_tok"),
    }


def _size(config: dict[str, Any], name: str, default: int | None = None) -> int:
    """Return a size from a config, which may say anything."""
    value = default if config.get(name) is None else config[name]
    if type(value) is not int or not 0 <= value <= MOST:
        raise Unknown("model.sizes")
    return value


def model_family(local_config: dict[str, Any]) -> str:
    """Family of the model, by transformers' name."""
    return str(local_config.get("model_type", ""))


def model_experts(local_config: dict[str, Any]) -> int:
    """Experts per MoE block of the model, 0 for a dense one."""
    found = (local_config.get(name) for name in EXPERTS)
    return next((each for each in found if isinstance(each, int) and each > 0), 0)
