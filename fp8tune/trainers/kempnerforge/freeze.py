"""Modules of freeze specs that no alias names.

The active list is worked out after each step and refuses them then: of the schedule
only the stages that the run reaches.

Source: KempnerForge at commit 5666d0d, training/freeze.py effective_freeze.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from fp8tune.formats.document import Path


class Stranger(NamedTuple):
    """Where a module stands, its name, and the aliases there are."""

    path: Path
    module: str
    aliases: list[str]


def unknown(values: dict[str, Any], written: Container[str]) -> Iterator[Stranger]:
    """Every module of a VLM's specs that is no alias, in dotted values of a config.

    Default specs point at the table of aliases, which replaces the default ones.
    """
    patterns = values.get("vlm.module_patterns")
    if isinstance(patterns, dict):
        for path, spec in _specs(values):
            module = spec.get("module") if isinstance(spec, dict) else None
            if isinstance(module, str) and module not in patterns:
                there = ".".join(path[:2]) in written  # type: ignore[arg-type]
                place = (*path, "module") if there else ("vlm", "module_patterns")
                yield Stranger(place, module, list(patterns))


def _specs(values: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    for index, spec in _items(values.get("vlm.freeze")):
        yield ("vlm", "freeze", index), spec
    for number, stage in _items(values.get("vlm.freeze_schedule")):
        if isinstance(stage, dict) and _reached(stage, values.get("train.max_steps")):
            for index, spec in _items(stage.get("specs")):
                yield ("vlm", "freeze_schedule", number, "specs", index), spec


def _items(found: Any) -> list[tuple[int, Any]]:
    return list(enumerate(found)) if isinstance(found, list) else []


def _reached(stage: dict[str, Any], steps: Any) -> bool:
    start = stage.get("start_step")
    numbers = isinstance(start, (int, float)) and isinstance(steps, (int, float))
    return numbers and start < steps
