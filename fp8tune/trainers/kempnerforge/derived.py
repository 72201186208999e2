"""What checks of KempnerForge's values need that no condition can say.

Modules of freeze specs that no alias names are refused in training: the active list is
worked out after each step, so that of the schedule only the stages count that the run
reaches.

Source: KempnerForge at commit 5666d0d, kempnerforge/config/data.py and vlm.py,
training/freeze.py effective_freeze.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from fp8tune.formats.document import Path
from fp8tune.trainers.checks import Values


def unsorted_phases(values: Values) -> list[Any]:
    """The first steps of ``data.phases``, empty if each is later than the last."""
    return _unsorted([phase.get("start_step", 0) for phase in values["phases"]])


def unsorted_stages(values: Values) -> list[Any]:
    """The first steps of ``vlm.freeze_schedule``, empty if each is later."""
    stages = values["freeze_schedule"]
    complete = all("start_step" in stage for stage in stages)
    return _unsorted([stage["start_step"] for stage in stages]) if complete else []


def _unsorted(steps: list[Any]) -> list[Any]:
    return [] if steps == sorted(set(steps)) else steps


def uncounted(values: Values) -> str:
    """The modalities without a count of experts."""
    modalities, counts = _experts(values)
    return ", ".join(sorted(modalities - counts))


def counted_only(values: Values) -> str:
    """What has a count of experts and is no modality."""
    modalities, counts = _experts(values)
    return ", ".join(sorted(counts - modalities))


def _experts(values: Values) -> tuple[set[str], set[str]]:
    return set(values["moma_modalities"]), set(values["moma_experts_per_modality"])


def without_experts(values: Values) -> str:
    """The first modality that has no positive number of experts."""
    counts = values["moma_experts_per_modality"]
    right = {
        name for name, n in counts.items() if isinstance(n, (int, float)) and n > 0
    }
    return next((name for name in counts if name not in right), "")


def repeated(values: Values) -> bool:
    """Whether a modality is named twice."""
    return len(set(values["modalities"])) < len(values["modalities"])


DERIVED = {
    name.__name__: name
    for name in (
        *(unsorted_phases, unsorted_stages, repeated),
        *(uncounted, counted_only, without_experts),
    )
}
"""Names of conditions, by these functions."""


class Stranger(NamedTuple):
    """Where a module stands, its name, and the aliases there are."""

    path: Path
    module: str
    aliases: list[str]


def unknown_modules(
    values: dict[str, Any], written: Container[str]
) -> Iterator[Stranger]:
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
