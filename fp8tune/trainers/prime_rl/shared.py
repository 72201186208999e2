"""Tables of an RL file that stand for trainer, orchestrator and inference together.

A shared value fills the places where the file says nothing. Two different values for
one place are refused.

Source: prime-rl 0.8.1.dev67, prime_rl/utils/validation.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.formats.document import Path

BOTH = ("trainer", "orchestrator")

SHARED: dict[str, tuple[str, ...]] = {
    "model.name": (*BOTH, "inference.vllm.model"),
    "model.vlm": BOTH,
    "log.level": (*BOTH, "inference"),
    "log.json_logging": (*BOTH, "inference"),
    "ckpt.output_dir": ("trainer",),
    "ckpt.interval": BOTH,
    "ckpt.keep_last": BOTH,
    "ckpt.keep_interval": BOTH,
    "monitors.wandb.project": BOTH,
    "monitors.wandb.entity": BOTH,
    "monitors.wandb.name": BOTH,
    "monitors.wandb.group": BOTH,
    "monitors.wandb.tags": BOTH,
    "monitors.wandb.offline": BOTH,
    "monitors.file.path": BOTH,
    "monitors.prime.name": ("orchestrator",),
    "tokenizer.name": BOTH,
    "tokenizer.trust_remote_code": BOTH,
    "tokenizer.chat_template": (*BOTH, "inference.vllm.chat_template"),
    "rollout_transport": BOTH,
    "max_steps": BOTH,
    "seq_len": ("trainer.model.seq_len", "orchestrator"),
    "slurm": ("inference",),
}
"""Which keys a shared key fills, in prime-rl's order; a part's own key by its name."""

PRESENT = {
    "ckpt": BOTH,
    "monitors.wandb": BOTH,
    "monitors.file": BOTH,
    "monitors.prime": ("orchestrator",),
}
"""Shared tables that turn the same table of a part on, by being there."""


def rl(raw: dict[str, Any]) -> tuple[dict[Path, Path], list[tuple[str, str]]]:
    """Fill in shared values; return what was filled from where, and what differs."""
    filled: dict[Path, Path] = {}
    conflicts: list[tuple[str, str]] = []
    for source, parts in SHARED.items():
        value = _get(raw, source)
        for target in (p if "." in p else f"{p}.{source}" for p in parts):
            if _get(raw, target) not in (None, value) and value is not None:
                conflicts.append((source, target))
            _fill(raw, target, value, source, filled)
    source, target = "trainer.tokenizer.chat_template", "inference.vllm.chat_template"
    _fill(raw, target, _get(raw, source), source, filled)
    for table, parts in PRESENT.items():
        value = _get(raw, table)
        enabled: Any = {} if isinstance(value, dict) else None
        for part in parts:
            switch = value if value == "None" else enabled
            _fill(raw, f"{part}.{table}", switch, table, filled)
    return filled, conflicts


def sft(raw: dict[str, Any]) -> None:
    """Give inference the model's name; drop what several nodes do not read."""
    deployment, server = raw.get("deployment"), raw.get("inference")
    if isinstance(deployment, dict) and deployment.get("type") == "multi_node":
        for key in ("num_train_gpus", "num_infer_gpus"):
            deployment.pop(key, None)
    name = _get(raw, "model.name")
    if isinstance(server, dict) and name:
        vllm = server.setdefault("vllm", {})
        if isinstance(vllm, dict):
            vllm.setdefault("model", name)


def _get(raw: dict[str, Any], path: str) -> Any:
    node: Any = raw
    for part in path.split("."):
        if not isinstance(node, dict):
            return None
        node = node.get(part)
    return node


def _fill(
    raw: dict[str, Any], target: str, value: Any, source: str, filled: dict[Path, Path]
) -> None:
    """Set a key that a part's table does not have, if there is a value."""
    parts = target.split(".")
    if value is None or not isinstance(raw.get(parts[0]), dict):
        return
    node: Any = raw
    for part in parts[:-1]:
        if not isinstance(node, dict):
            return
        node = node.setdefault(part, {})
    if isinstance(node, dict) and parts[-1] not in node:
        node[parts[-1]] = value
        filled[tuple(parts)] = tuple(source.split("."))
