"""Keys that one release of torchtitan has and another has not, or calls otherwise.

Source: the config classes of 0.1.0, 0.2.0, 0.2.1 and 0.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from fp8tune.formats.document import Path
from fp8tune.formats.values import find
from fp8tune.trainers.about import trainers
from fp8tune.trainers.faults import dotted
from fp8tune.trainers.schema import read

LENIENT = "0.1.0"
"""The release that ignores keys that it does not know."""
UNTIL_0_2_0 = (LENIENT, "0.2.0")
UNTIL_0_2_1 = (*UNTIL_0_2_0, "0.2.1")
"""Releases before a change: what holds for the one after them holds for later ones."""

MOVED = {
    "float8": "quantize.linear.float8",
    "mx": "quantize.linear.mx",
    "training.compile": "compile.enable",
    "training.seed": "debug.seed",
    "training.deterministic": "debug.deterministic",
    "training.debug_moe_force_load_balance": "debug.moe_force_load_balance",
    "checkpoint.enable_checkpoint": "checkpoint.enable",
    "checkpoint.initial_load_model_weights_only": "checkpoint.initial_load_model_only",
    "checkpoint.last_save_model_weights_only": "checkpoint.last_save_model_only",
    "lr_scheduler.lr_min": "lr_scheduler.min_lr_factor",
    "job.print_args": "job.print_config",
    "memory_estimation.enabled": "memory_estimation.enable",
    "experimental.custom_args_module": "job.custom_config_module",
}
"""Keys and tables that a later release calls otherwise, with their later names."""

RESHAPED = {
    "model.hf_assets_path": "`model.tokenizer_path`, the tokenizer's file",
    "mx.use_fp8_dim1_cast_triton_kernel": "`mxfp8_dim1_cast_kernel_choice`, a name",
    "parallelism.pipeline_parallel_split_points": "`module_fqns_per_model_part`",
}
"""Keys in whose place another release has one with other values, and that one."""

_TRANSFORMERS = "torchtitan.experiments.transformers_modeling_backend.job_config"
_FAULT_TOLERANCE = "torchtitan.components.ft.config.job_config"
ADDED = {
    "hf_transformers": _TRANSFORMERS,
    "fault_tolerance.sync_steps": _FAULT_TOLERANCE,
    "fault_tolerance.should_quantize": _FAULT_TOLERANCE,
    "fault_tolerance.fragment_sync_delay": _FAULT_TOLERANCE,
    "fault_tolerance.fragment_update_alpha": _FAULT_TOLERANCE,
}
"""Tables and keys that a module of torchtitan adds since 0.2.0, and the module."""


class Elsewhere(NamedTuple):
    """What other releases say of a key that one release does not have.

    ``hint`` is empty if none has it. ``home`` is the key's name here, if its value can
    be moved there, and ``gone`` says what happens if it is removed.
    """

    hint: str = ""
    home: str = ""
    gone: str = ""


def elsewhere(version: str, path: Path, raw: dict[str, Any]) -> Elsewhere:
    """Which releases have a key of a file that ``version`` has not, and what to do."""
    name = dotted(path)
    if version != LENIENT and name in ADDED:
        return Elsewhere(f'set `job.custom_config_module = "{ADDED[name]}"`')
    names = dict.fromkeys((name, *_other_names(name)))
    known = (n for n in names if any(n in _keys(v) for v in _versions()))
    owner = next(known, "")
    if not owner:
        return Elsewhere()
    owners = [v for v in _versions() if owner in _keys(v)]
    hint = f"a key of torchtitan {_span(owners)}"
    value = find(raw, path)
    if value == {}:
        return Elsewhere(f"{hint}; the table is empty", gone="the table is empty")
    here = next((n for n in names if n in _keys(version)), "")
    if not here:
        return _lost(version, owner, owners, value, hint)
    there = find(raw, tuple(here.split(".")))
    hint = f"{hint}; {version} calls it `{here}`"
    if there is None:
        return Elsewhere(hint, home=here)
    if there == value:
        return Elsewhere(f"{hint}, which is the same", gone=f"`{here}` stays")
    return Elsewhere(f"{hint}, which has another value: keep one of them")


def _lost(
    version: str, owner: str, owners: list[str], value: Any, hint: str
) -> Elsewhere:
    """What to do with a key that has no counterpart of the same form."""
    if owner in RESHAPED:
        return Elsewhere(f"{hint}; {version} has {RESHAPED[owner]}")
    hint = f"{hint}; {version} has nothing in its place"
    newest = owners[-1]
    if version != LENIENT:
        return Elsewhere(hint, gone=f"torchtitan {version} has nothing in its place")
    if value is not None and value == _keys(newest)[owner]:
        return Elsewhere(hint, gone="its value is the default")
    return Elsewhere(f"{hint} (--trainer torchtitan=={newest} checks for that release)")


def inside(version: str, path: Path, value: Any, raw: dict[str, Any]) -> bool:
    """Whether the keys of an unknown table are to be looked at one by one.

    They are if some of them have another name here, or the table itself has one that
    the file has too.
    """
    if not isinstance(value, dict) or not value:
        return False
    name = dotted(path)
    for one in (pair for old in MOVED.items() for pair in (old, old[::-1])):
        if one[1] in _keys(version) and one[0].startswith(f"{name}."):
            return True
    here = (n for n in _other_names(name) if n in _keys(version))
    return any(find(raw, tuple(n.split("."))) is not None for n in here)


def _other_names(name: str) -> Iterator[str]:
    """What other releases may call a key or table."""
    for old, new in MOVED.items():
        for one, other in ((old, new), (new, old)):
            if name == one or name.startswith(f"{one}."):
                yield other + name.removeprefix(one)


def _versions() -> list[str]:
    """The releases that have a schema, the oldest first."""
    return trainers()["torchtitan"].versions


def _span(versions: list[str]) -> str:
    """Some releases in a row: ``0.2.0 to 0.2.2``."""
    if len(versions) < 3:
        return " and ".join(versions)
    return f"{versions[0]} to {versions[-1]}"


@cache
def _keys(version: str) -> dict[str, Any]:
    """All tables and keys of a release, with their defaults."""
    found = read(f"torchtitan=={version}")
    keys = {name: key.effective_default for name, key in found.dotted_keys()}
    return dict.fromkeys(found.sections) | keys
