"""What Megatron-Bridge makes of a YAML file of overrides.

The file is merged into a recipe, which is Python and not known here: keys that are not
written are unknown. What no config class has is skipped with a warning. At start every
field of ``mixed_precision`` is copied over model, optimizer and DDP.

Source: src/megatron/bridge/training/utils/omegaconf_utils.py, mixed_precision.py and
config.py; ``python -m tools.megatron_bridge.verdicts`` compares this with them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

from fp8tune.formats.document import Path, Unresolved
from fp8tune.job import Prose
from fp8tune.suggest import closest
from fp8tune.trainers.about import path_of
from fp8tune.trainers.faults import Fault, Loaded, dotted
from fp8tune.trainers.hints import Hints
from fp8tune.trainers.meant import key_meant, value_meant
from fp8tune.trainers.megatron_lm.checks import refusals
from fp8tune.trainers.schema import Schema

MAX_FAULTS = 200

RECIPE, WITH = "fp8_recipe", "_with_"
PRECISION = "mixed_precision"
TARGET = "_target_"
COPIED = ("model", "optimizer", "ddp")
"""Sections over which the fields of ``mixed_precision`` are copied."""

NEEDED_BY_CHECKS = {
    "fp8_format": "mixed_precision.fp8",
    "fp8_recipe": "mixed_precision.fp8_recipe",
    "fp8_param_gather": "mixed_precision.fp8_param_gather",
    "first_last_layers_bf16": "mixed_precision.first_last_layers_bf16",
    "num_layers_at_start_in_bf16": "mixed_precision.num_layers_at_start_in_bf16",
    "num_layers_at_end_in_bf16": "mixed_precision.num_layers_at_end_in_bf16",
    "fp4_format": "mixed_precision.fp4",
    "num_layers": "model.num_layers",
    "pipeline_model_parallel_size": "model.pipeline_model_parallel_size",
}
"""What the checks of Megatron-LM's model call the keys."""


class Loader:
    """Loads files of overrides."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.hints = Hints(schema)
        with open(path_of("megatron_bridge", "recipes.toml"), "rb") as file:
            self.recipes: dict[str, dict[str, Any]] = tomllib.load(file)

    def load(self, raw: dict[str, Any]) -> Loaded:
        """Return what the file sets, and what is refused or has no effect."""
        run = _Run(self)
        run.file(raw)
        return Loaded(run.values, run.written, run.faults[:MAX_FAULTS])


class _Run:
    """One file on its way through the loader."""

    def __init__(self, loader: Loader) -> None:
        self.schema, self.hints, self.recipes = (
            loader.schema,
            loader.hints,
            loader.recipes,
        )
        self.values: dict[str, Any] = {}
        self.written: set[str] = set()
        self.faults: list[Fault] = []

    def file(self, raw: dict[str, Any]) -> None:
        """Load the sections whose keys are known."""
        for section, table in raw.items():
            self.written.add(section)
            if section not in self.schema.sections:
                near = closest(section, self.schema.sections)
                if near and near not in raw:
                    self.ignored((section,), "a config", self.schema.sections)
            elif isinstance(table, dict):
                self.table(section, table)
        self.precision(raw)
        self.checks()

    def table(self, section: str, table: dict[str, Any]) -> None:
        """Load one section."""
        keys = self.schema.classes[self.schema.section_class(section)]
        for name, value in table.items():
            here: Path = (section, str(name))
            if name in keys:
                self.written.add(dotted(here))
                if not isinstance(value, Unresolved):
                    self.values[dotted(here)] = value
            elif keys and name != TARGET:
                near = closest(str(name), keys)
                if section == PRECISION or (near and near not in table):
                    self.ignored(here, f"`{section}`", keys)

    def ignored(self, path: Path, table: str, keys: Iterable[str]) -> None:
        """Note a key that is skipped."""
        near = closest(str(path[-1]), keys)
        hint = f"did you mean `{near}`?" if near else ""
        facts = {"key": dotted(path), "name": str(path[-1]), "table": table}
        meant = key_meant(hint, path, list(keys))
        self.faults.append(Fault("ignored-key", path, {**facts, "hint": hint, **meant}))

    def precision(self, raw: dict[str, Any]) -> None:
        """Resolve the name of a mixed precision."""
        said = raw.get(PRECISION)
        keys = self.schema.classes[self.schema.section_class(PRECISION)]
        defaults = {name: spec.default for name, spec in keys.items()}
        if isinstance(said, Unresolved):
            return
        if isinstance(said, str):
            name = said.replace("-", "_")
            if name not in self.recipes:
                self.unknown_recipe(said)
                return
            fixed = defaults | self.recipes[name]
            if "current" in name and fixed["fp8_recipe"] != "tensorwise":
                facts = {"key": PRECISION, "value": said}
                fault = Fault("recipe-named-otherwise", (PRECISION,), facts)
                self.faults.append(fault)
            self.values |= {f"{PRECISION}.{name}": v for name, v in fixed.items()}
        else:  # what a mapping leaves out comes from the recipe
            fixed = {}
        if isinstance(said, dict) and TARGET not in said:
            facts = {"key": PRECISION}
            self.faults.append(Fault("precision-without-target", (PRECISION,), facts))
        if PRECISION not in raw or said is not None:
            self.copied(raw, fixed)

    def unknown_recipe(self, said: str) -> None:
        """Note a name that no recipe has."""
        recipes = {name: str(self.recipes[name].get(RECIPE)) for name in self.recipes}
        named = [name for name, recipe in recipes.items() if recipe in said]
        start = said.partition(WITH)[0]
        same = (name for name in named if name.partition(WITH)[0] == start)
        near = closest(said, named or recipes) or next(same, "")
        hint = f'did you mean "{near}"?' if near else ""
        facts = {"key": PRECISION, "value": said, "allowed": named or list(recipes)}
        facts |= {"hint": hint, **value_meant(hint, said)}
        self.faults.append(Fault("value-not-allowed", (PRECISION,), facts))

    def copied(self, raw: dict[str, Any], fixed: dict[str, Any]) -> None:
        """Note settings over which ``mixed_precision`` is copied.

        If the file does not say what it is, the recipe does: then of FP8 keys alone,
        which all its recipes set.
        """
        keys = self.schema.classes[self.schema.section_class(PRECISION)]
        for section in COPIED:
            table = raw.get(section)
            for name, value in table.items() if isinstance(table, dict) else ():
                if name not in keys or not value or isinstance(value, Unresolved):
                    continue
                if fixed and fixed[name] != value and name[-5:] != "dtype":
                    becomes = fixed[name]
                elif not fixed and PRECISION not in raw and name[:3] == "fp8":
                    becomes = None
                else:
                    continue
                facts = {
                    "key": f"{section}.{name}",
                    "value": value,
                    "becomes": becomes,
                    "sure": bool(fixed),
                }
                path = (section, name)
                self.faults.append(Fault("overwritten-by-precision", path, facts))

    def checks(self) -> None:
        """What the model's own class refuses of these settings."""
        known = {
            name: self.values[key]
            for name, key in NEEDED_BY_CHECKS.items()
            if key in self.values
        }
        for fault in refusals({**known, "use_torch_fsdp2": False}):
            key = NEEDED_BY_CHECKS[fault.path[0]]  # type: ignore[index]
            path: Path = tuple(key.split("."))
            facts = {**fault.facts, "key": key, "hint": ""}
            self.faults.append(Fault(fault.kind, path, facts))
        self.own_checks()

    def own_checks(self) -> None:
        """What Bridge's container refuses of them."""
        get = self.values.get
        fp8 = get(f"{PRECISION}.fp8")
        sharded = get("dist.use_megatron_fsdp") or get("ddp.use_megatron_fsdp")
        weights = get(f"{PRECISION}.fp8_param_gather")
        reuse = f"{PRECISION}.reuse_grad_buf_for_mxfp8_param_ag"
        if sharded and get("ddp.megatron_fsdp_version") == 2 and fp8:
            key, reason = "ddp.megatron_fsdp_version", "MFSDP V2 does not support FP8"
            self.refused(key, reason, "set it to 1, or train in bf16")
        mxfp8 = get(f"{PRECISION}.fp8_recipe") == "mxfp8"
        if mxfp8 and weights and get(reuse) is False and not sharded:
            reason = "with FP8 weights and mxfp8 it must be true"
            self.refused(reuse, reason, "set it to true")

    def refused(self, key: str, reason: str, hint: str) -> None:
        """Note settings that are refused together."""
        facts = {"key": key, "reason": Prose(reason), "hint": Prose(hint)}
        self.faults.append(Fault("refused-settings", tuple(key.split(".")), facts))
