"""What Megatron-Bridge makes of a YAML file of overrides.

The file is merged into a recipe, which is Python and not known here: keys that are not
written are unknown. What no config class has is skipped with a warning. At start every
field of ``mixed_precision`` is copied over model, optimizer and DDP.

Source: src/megatron/bridge/training/utils/omegaconf_utils.py, mixed_precision.py and
config.py; ``python -m tools.verdicts megatron_bridge`` compares this with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fp8tune.formats.document import Path, Unresolved
from fp8tune.suggest import closest
from fp8tune.trainers.about import read_toml
from fp8tune.trainers.checks import Checks
from fp8tune.trainers.faults import Loaded, Loading, dotted
from fp8tune.trainers.hints import key_meant
from fp8tune.trainers.schema import Schema

RECIPE, WITH = "fp8_recipe", "_with_"
PRECISION = "mixed_precision"
TARGET = "_target_"
COPIED = ("model", "optimizer", "ddp")
"""Sections over which the fields of ``mixed_precision`` are copied."""

SHARDED: dict[str, Any] = {
    "dist.use_megatron_fsdp": None,
    "ddp.use_megatron_fsdp": None,
}
"""Switches of Megatron-FSDP, which are off where a file does not set them."""


class Loader:
    """Loads files of overrides."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.checks = Checks(schema)
        self.recipes = read_toml("megatron_bridge", "recipes.toml")

    def load(self, raw: dict[str, Any]) -> Loaded:
        """Return what the file sets, and what is refused or has no effect."""
        run = _Run(self)
        run.file(raw)
        return run.loaded


class _Run(Loading):
    """One file on its way through the loader."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader.schema)
        self.recipes, self.checks = loader.recipes, loader.checks

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
        self.faults += self.checks.refusals(SHARDED | self.values, self.written)

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
        facts = {"hint": hint, **key_meant(hint, path, list(keys))}
        self.fault("ignored-key", path, name=str(path[-1]), table=table, **facts)

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
                self.fault("recipe-named-otherwise", (PRECISION,), value=said)
            self.values |= {f"{PRECISION}.{name}": v for name, v in fixed.items()}
        else:  # what a mapping leaves out comes from the recipe
            fixed = {}
        if isinstance(said, dict) and TARGET not in said:
            self.fault("precision-without-target", (PRECISION,))
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
        self.not_allowed((PRECISION,), said, named or list(recipes), hint)

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
                facts = {"value": value, "becomes": becomes, "sure": bool(fixed)}
                self.fault("overwritten-by-precision", (section, name), **facts)
