"""Compare the weights and gradients that ranks kept, and what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]
Tensors = Mapping[str, Any]

FIRST = "layers.0.mlp."
"""The MLP of the first layer."""


def saved(checkpoints: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors in the latest checkpoint of a folder, by name."""
    dcp: Any = import_module("torch.distributed.checkpoint")
    index = dcp.FileSystemReader(checkpoints / "latest").read_metadata()
    entries = index.state_dict_metadata.items()
    return {name: tuple(e.size) for name, e in entries if hasattr(e, "size")}


def distance(tensor: Any, other: Any) -> float:
    """How far another tensor is from one, in units of its norm."""
    return float((other - tensor).norm() / tensor.norm())


def apart(one: Tensors, other: Tensors) -> dict[str, float]:
    """The tensors of one name that are not equal, with their distances."""
    pairs = ((name, one[name], other[name]) for name in one if name in other)
    found = {name: distance(tensor, twin) for name, tensor, twin in pairs}
    return {name: value for name, value in found.items() if value}


def is_expert(name: str) -> bool:
    """Whether a parameter is of one expert, or of several packed ones."""
    return ".experts." in name or name.endswith(("up_w", "down_w", "gate_w"))


def only_experts(tensors: Tensors, wanted: bool = True) -> dict[str, Any]:
    """The tensors of experts; or all others."""
    return {n: tensor for n, tensor in tensors.items() if is_expert(n) == wanted}


def ratios_of_norms(
    norms: Mapping[str, float], other: Mapping[str, float], experts: bool
) -> list[float]:
    """The least and the largest ratio of norms of one name, of experts or not."""
    found = [norms[name] / other[name] for name in norms if is_expert(name) == experts]
    return [min(found), max(found)]


def first_experts(names: Iterable[str]) -> list[str]:
    """Of the names those of the first layer's up projections: one each, or packed."""
    experts = f"{FIRST}experts."
    last = ".up_proj.weight"
    up = (n for n in names if n.startswith(experts) and n.endswith(last))
    return [*up, *(name for name in names if name == f"{FIRST}up_w")]


def saved_experts(shapes: Shapes) -> int:
    """The experts that a checkpoint holds of the first layer."""
    models = {n.removeprefix("model."): s for n, s in shapes.items()}
    names = first_experts(models)
    return sum(models[n][0] if n.endswith("up_w") else 1 for n in names)


def different_experts(ranks: Sequence[Tensors]) -> int:
    """The experts of the first layer that differ from each other, on all ranks."""
    found = set()
    for tensors in ranks:
        for name in first_experts(tensors):
            tensor = tensors[name]
            parts = tensor.unbind() if name.endswith("up_w") else [tensor]
            found |= {tuple(part.flatten().tolist()) for part in parts}
    return len(found)


def sources(loaded: Tensors, ended: Sequence[Tensors]) -> list[int]:
    """The ranks that the matrices of the first expert come from, by what they held."""
    starts = (f"{FIRST}experts.0.", f"{FIRST}up_w", f"{FIRST}gate_w", f"{FIRST}down_w")
    names = (name for name in loaded if name.startswith(starts))
    found = {
        next((r for r, held in enumerate(ended) if held[n].equal(loaded[n])), -1)
        for n in names
    }
    return sorted(found)


def with_state(shapes: Shapes) -> int:
    """The parameters of which a checkpoint holds something of the optimizer's."""
    states = (name.removeprefix("optimizer.state.") for name in shapes)
    names = {name.removeprefix("model.") for name in shapes if name[:6] == "model."}
    return len(names & {state.rpartition(".")[0] for state in states})
