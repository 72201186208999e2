"""What the freeze specs of a KempnerForge VLM leave to train, and which do nothing.

Every public function is a name of the job, as in ``job.py``. Patterns are matched
against the full names of parameters. What activation checkpointing and torch.compile
wrap has another name: ``_checkpoint_wrapped_module`` comes after the block, and
``_orig_mod`` before all, once the model is compiled (training/freeze.py,
distributed/parallel.py, scripts/train.py).

Source: KempnerForge at commit 5666d0d, files named in each docstring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fp8tune.job import Unknown

COMPONENTS = ("transformer", "adapter", "vision_encoder")
"""Attributes of the VLM wrapper that hold parameters (model/vlm.py)."""

COMPILED, CHECKPOINTED = "_orig_mod.", "_checkpoint_wrapped_module."
"""What wrappers add to the names of parameters."""

_BLOCK = r"transformer\.layers\.([0-9]+)\.(.*)"


def vlm_frozen(vlm_freeze: Any, vlm_module_patterns: Any) -> list[str]:
    """Components that are fully frozen when the model is built (training/freeze.py)."""
    frozen: set[str] = set()
    _apply(vlm_freeze, vlm_module_patterns, frozen)
    return [name for name in COMPONENTS if name in frozen]


def vlm_decoder_trains(vlm_freeze: Any, vlm_module_patterns: Any) -> bool:
    """Whether no part of the language model can be frozen when the model is built."""
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
    compile: bool,  # noqa: A002
) -> int:
    """First step from which no parameter trains; 0 from the start, -1 for never.

    The random encoder has no parameters. Stages act when their step is reached
    (scripts/train.py, FreezeStage hook). Unknown for a compiled model.
    """
    frozen = {"vision_encoder"} if vision_encoder_type == "random" else set()
    _apply(vlm_freeze, vlm_module_patterns, frozen)
    if len(frozen) == len(COMPONENTS):
        return 0
    for step, specs in _followed(vlm_freeze_schedule, max_steps, compile):
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
    """Modules that a stage unfreezes although the optimizer does not hold them.

    ``build_optimizer`` takes the parameters that are trainable when it runs
    (training/optimizer.py). The schedule only sets ``requires_grad``.
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

    The hook compares after a step is counted. The first step that it sees is 1, and
    after the last one nothing trains (scripts/train.py).
    """
    steps = [step for step, _ in _stages(vlm_freeze_schedule)]
    return [step for step in steps if not 0 < step < max_steps]


def vlm_compiled_stages(
    vlm_freeze_schedule: Any, vlm_module_patterns: Any, max_steps: int
) -> list[int]:
    """Start steps of stages that match no parameter of a compiled model.

    The hook passes the compiled model, in which names begin with ``_orig_mod.``
    (scripts/train.py, FreezeStage hook). ``vlm.freeze`` is applied before. A stage with
    an unknown alias fails anyway.
    """
    found = []
    for step, specs in _reached(vlm_freeze_schedule, max_steps):
        names = [name for name, _ in _specs(specs)]
        known = all(name in vlm_module_patterns for name in names)
        patterns = [p for name in names for p in _patterns(name, vlm_module_patterns)]
        if known and patterns and not any(map(_may_match_compiled, patterns)):
            found.append(step)
    return found


def vlm_empty_patterns(
    vlm_freeze: Any,
    vlm_freeze_schedule: Any,
    vlm_module_patterns: Any,
    vlm_arch_name: str,
    ac_applied: str,
    layers: int,
) -> list[str]:
    """Patterns of the used aliases that certainly match no parameter.

    A bare module name next to its ``module.*`` is a habit and not a mistake
    (config/vlm.py).
    """
    used = dict(_specs(vlm_freeze))
    for _, specs in _stages(vlm_freeze_schedule):
        used |= dict(_specs(specs))
    roots = _roots(vlm_arch_name)
    wrapped = CHECKPOINTED if ac_applied == "full" else ""
    found: dict[str, None] = {}
    for name in used:
        patterns = _listed(name, vlm_module_patterns)
        for pattern in patterns:
            beside = any(other.startswith(f"{pattern}.") for other in patterns)
            if not beside and not _may_match(pattern, roots, layers, wrapped):
                found[pattern] = None
    return list(found)


def _roots(arch: str) -> tuple[str, ...]:
    """What names of parameters outside blocks begin with (model/transformer.py)."""
    own = {"cross_attention": ("cross_attention_layers",), "mot": ("mot_norms",)}
    decoder = ("token_embedding", "norm", "output_head", *own.get(arch, ()))
    names = (*(f"transformer.{name}" for name in decoder), *COMPONENTS[1:])
    return (*(f"{name}." for name in names), COMPILED)


def _may_match(pattern: str, roots: tuple[str, ...], layers: int, wrapped: str) -> bool:
    literal = _literal(pattern)
    block = re.match(_BLOCK, literal)
    if block:
        whole = literal == pattern
        rest = block[2]
        inside = rest.startswith(wrapped) if whole else _overlap(rest, wrapped)
        return inside and int(block[1]) < layers
    if literal == pattern:
        return literal.startswith(roots)
    return any(_overlap(literal, root) for root in (*roots, "transformer.layers."))


def _may_match_compiled(pattern: str) -> bool:
    return _overlap(_literal(pattern), COMPILED)


def _literal(pattern: str) -> str:
    """A pattern up to its first wildcard."""
    return re.split(r"[*?[]", pattern, maxsplit=1)[0]


def _overlap(literal: str, root: str) -> bool:
    return root.startswith(literal) or literal.startswith(root)


def _specs(specs: Any) -> Iterator[tuple[str, bool]]:
    for spec in specs:
        if not isinstance(spec, dict) or not isinstance(spec.get("module"), str):
            raise Unknown("vlm.freeze")
        yield spec["module"], bool(spec.get("frozen", True))


def _patterns(name: str, patterns: Any) -> list[str]:
    if not isinstance(patterns, dict):
        raise Unknown("vlm.module_patterns")
    return [str(pattern) for pattern in patterns.get(name, [name])]


def _listed(name: str, patterns: Any) -> list[str]:
    """The patterns of an alias, none of what is no alias."""
    found = patterns.get(name, []) if isinstance(patterns, dict) else None
    if not isinstance(found, list) or not all(isinstance(p, str) for p in found):
        raise Unknown("vlm.module_patterns")
    return found


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


def _followed(
    schedule: Any, max_steps: int, compiled: bool
) -> Iterator[tuple[int, Any]]:
    """The stages that are reached, where what they match is clear."""
    for stage in _reached(schedule, max_steps):
        if compiled:
            raise Unknown("vlm.freeze_schedule")
        yield stage


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
