"""What NeMo Automodel makes of a recipe's YAML file.

Nothing checks types. Text that reads like a Python value becomes that value. Sections
that are given to a config class refuse unknown keys; ``fp8`` and ``compile`` are read
key by key, so that unknown ones are ignored, as unknown sections are.

Source: nemo_automodel/components/config/loader.py, recipes/_typed_config.py and
_dist_utils.py; ``python -m tools.verdicts automodel`` compares this with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from fp8tune.formats.document import Path, Unresolved
from fp8tune.formats.values import find
from fp8tune.job import Prose
from fp8tune.suggest import closest
from fp8tune.trainers.checks import Checks
from fp8tune.trainers.faults import Loaded, Loading, dotted
from fp8tune.trainers.hints import key_meant, nearest
from fp8tune.trainers.schema import Key, Schema

STRICT = ("checkpoint", "distributed", "step_scheduler")
"""Sections that are given to a config class, in recipes of ``KNOWN``."""

IGNORED = ("fp8", "compile")
"""Sections that are read key by key."""

KNOWN = (
    "TrainFinetuneRecipeForNextTokenPrediction",
    "BenchmarkingRecipeForNextTokenPrediction",
    "FinetuneRecipeForVLM",
)
"""Recipes that build their model from ``fp8`` and ``compile``; others differ."""

_OF_NEMO = (
    *(
        "NeMoAutoModelForCausalLM.from_pretrained",
        "NeMoAutoModelForCausalLM.from_config",
    ),
    "NeMoAutoModelForImageTextToText.from_pretrained",
    "recipes.llm.train_ft.TrainFinetuneRecipeForNextTokenPrediction",
    "components.distributed.fsdp2.FSDP2Manager",
    "components.loss.masked_ce.MaskedCrossEntropy",
    "components.models.common.BackendConfig",
    "components.datasets.llm.hellaswag.HellaSwag",
    "components.datasets.llm.squad.make_squad_dataset",
    "components.datasets.utils.default_collater",
    "components._peft.lora.PeftConfig",
    "components.training.rng.StatefulRNG",
)
_OPTIMIZERS = (
    *("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS"),
    *("Muon", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam"),
)
TARGETS = (
    *(f"nemo_automodel.{name}" for name in _OF_NEMO),
    *(f"torch.optim.{name}" for name in _OPTIMIZERS),
    "torchdata.stateful_dataloader.StatefulDataLoader",
)
"""What ``_target_`` names most often in Automodel's examples; torch's optimizers."""

SLIP = 0.95
"""How like one of these a name is that is meant to be it (difflib)."""

CALLED = {"float8": "fp8", "fp8_config": "fp8", "torch_compile": "compile"}
"""What users of other trainers call a section."""

DEPTH = 4
"""Tables in which a ``_target_`` is looked for."""

SWITCHES = (
    "fp8.enabled",
    "fp8.enable_fsdp_float8_all_gather",
    "fp8.precompute_float8_dynamic_scale_for_fsdp",
    "fp8.emulate",
    "compile.enabled",
)

_NUMBER = re.compile(r"[-+]?[\d._]{1,20}(?:[eE][-+]?\d{1,3})?", re.ASCII)

WORDS = {"none": None, "None": None} | dict.fromkeys(("true", "True"), True)
WORDS |= dict.fromkeys(("false", "False"), False)
LENIENT = "0.3.0"
"""The release in which ``distributed._target_`` takes any arguments."""


class Loader:
    """Loads recipes of one release."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.checks = Checks(schema)

    def load(self, raw: dict[str, Any]) -> Loaded:
        """Return the recipe as Automodel holds it, and what it refuses or ignores."""
        run = _Run(self)
        run.file(raw)
        if run.lost:
            return run.without_lost()
        return run.loaded


def recipe_of(raw: dict[str, Any]) -> str:
    """Return the class of the recipe, ``""`` where the command line says it."""
    recipe = raw.get("recipe")
    if isinstance(recipe, dict):
        recipe = recipe.get("_target_")
    return str(recipe or "").rpartition(".")[2]


class _Run(Loading):
    """One file on its way through the loader."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader.schema)
        self.checks = loader.checks
        self.strict = False
        self.lost: set[str] = set()

    def without_lost(self) -> Loaded:
        """Return what holds whatever the values are that only a run knows."""
        certain = ("unknown-key", "ignored-key", "section-not-a-table")
        faults = [fault for fault in self.faults if fault.kind in certain]
        values = {name: v for name, v in self.values.items() if name not in self.lost}
        return Loaded(values, self.written, faults)

    def file(self, raw: dict[str, Any]) -> None:
        """Load the sections whose keys are known."""
        recipe = self.slips(raw) or recipe_of(raw)
        self.strict = recipe in (*KNOWN, "")
        self.top(raw)
        self.values["recipe"] = recipe or KNOWN[0]
        for section, name in self.schema.sections.items():
            table = translated(raw.get(section))
            keys = self.schema.classes[self.variant(name, table)]
            if not keys:
                continue
            if table is None and section in STRICT + IGNORED:
                table = {}
            if isinstance(table, dict):
                self.table(keys, table, (section,))
            elif isinstance(table, Unresolved):
                self.lost |= {dotted((section, name)) for name in keys}
            elif section in raw and table is not None:
                self.fault("section-not-a-table", (section,), value=table)
        self.fp8()
        self.together(raw)

    def top(self, raw: dict[str, Any]) -> None:
        """Load the keys above all sections, and note which sections there are."""
        for name, value in raw.items():
            is_read = name in self.schema.sections or name in self.schema.top_keys
            if not is_read:
                self.section(name)
            elif translated(value) is not None:
                self.written.add(name)
            if isinstance(value, Unresolved):
                self.lost.add(name)
            if name in self.schema.top_keys:
                self.values[name] = translated(value)

    def slips(self, raw: dict[str, Any]) -> str:
        """Note misspelt names of classes, and return the recipe that was meant."""
        for path in _targets(raw):
            value = find(raw, path)
            if meant := _slip_of(value, TARGETS):
                self.misspelt(path, value, meant)
        recipe = raw.get("recipe")
        meant = _slip_of(recipe, KNOWN) if isinstance(recipe, str) else ""
        if meant:
            self.misspelt(("recipe",), recipe, meant)
        return meant

    def misspelt(self, path: Path, value: Any, meant: str) -> None:
        """Note the name of a class that no package has."""
        reason = f"there is nothing called `{value}`"
        hint = Prose(f"did you mean `{meant}`?")
        self.fault("refused-settings", path, reason=Prose(reason), hint=hint)

    def variant(self, name: str, table: Any) -> str:
        """Return the class of a section, where one of its keys chooses it."""
        choice = self.schema.variants.get(name)
        if choice is None:
            return name
        key = table.get(choice.key) if isinstance(table, dict) else None
        return choice.classes.get(str(key or choice.default).lower(), name)

    def section(self, name: str) -> None:
        """Note a section that nothing reads, if it is nearly the name of another."""
        names = *self.schema.sections, *self.schema.top_keys
        near = CALLED.get(name) or closest(name, names)
        if near and near not in self.written and name[:1] != "_":
            self.unknown("ignored-key", (name,), "a recipe", [near])

    def table(self, keys: dict[str, Key], table: dict[str, Any], path: Path) -> None:
        """Load one table and those inside it."""
        own = bool(table.get("_target_")) and self.schema.version == LENIENT
        kind = "unknown-key" if path[0] in STRICT else "ignored-key"
        checked = path[0] in IGNORED or (path[0] in STRICT and self.strict and not own)
        for name, value in table.items():
            here = (*path, name)
            spec = keys.get(name)
            if spec is not None and spec.base in self.schema.classes:
                if isinstance(value, dict):
                    self.written.add(dotted(here))
                    self.values[dotted(here)] = True
                    self.table(self.schema.classes[spec.base], value, here)
            elif spec is not None:
                self.written.add(dotted(here))
                if isinstance(value, Unresolved):
                    self.lost.add(dotted(here))
                self.values[dotted(here)] = translated(value)
            elif checked:
                self.unknown(kind, here, f"`{dotted(path)}`", keys)
        for name, spec in keys.items():
            if name not in table and spec.base not in self.schema.classes:
                self.values[dotted((*path, name))] = spec.default

    def unknown(self, kind: str, path: Path, table: str, keys: Iterable[str]) -> None:
        """Note a key that nothing reads, or that is refused."""
        called = CALLED.get(str(path[0])) if len(path) == 1 else None
        near = called or nearest(str(path[-1]), keys)
        hint = f"did you mean `{near}`?" if near else ""
        facts = {"hint": hint, **key_meant(hint, path, list(keys))}
        self.fault(kind, path, name=str(path[-1]), table=table, **facts)

    def fp8(self) -> None:
        """What is read of ``fp8`` if it is on; switches are read by their truth."""
        v = self.values
        for name in SWITCHES:
            v[name] = bool(v.get(name))
        if not v["fp8.enabled"]:
            return
        self.one_of("Fp8", "fp8.recipe_name", v["fp8.recipe_name"])
        filters = v["fp8.filter_fqns"]
        if isinstance(filters, str) and filters:
            self.fault("filter-is-text", ("fp8", "filter_fqns"), value=filters)
            v["fp8.filter_fqns"] = [*filters]  # each letter is a filter

    def together(self, raw: dict[str, Any]) -> None:
        """What is refused together, and values of known recipes that are one of few."""
        scope = self.values | {"file": raw, "strict": self.strict}
        self.faults += self.checks.refusals(scope, self.written)
        v = self.values
        if self.strict:
            if (key := "distributed.strategy") in v:
                self.one_of("Distributed", key, str(v[key]).lower())
            if (key := "checkpoint.model_save_format") in v:
                self.one_of("Checkpoint", key, v[key])

    def one_of(self, name: str, key: str, value: Any) -> None:
        """Note a value that is not one of those allowed, and forget it."""
        path: Path = tuple(key.split("."))
        spec = self.schema.classes[name][str(path[-1])]
        if value in spec.allowed or (value is None and spec.optional):
            return
        self.not_allowed_by(spec, path, value)
        del self.values[key]


def _targets(values: Any, path: Path = ()) -> Iterator[Path]:
    """Yield where tables name the class that is made of them."""
    if isinstance(values, dict) and len(path) < DEPTH:
        for name, value in values.items():
            if name == "_target_" and isinstance(value, str):
                yield (*path, name)
            yield from _targets(value, (*path, name))


def _slip_of(name: str, names: Iterable[str]) -> str:
    """Return the name of which another one is a slip, ``""`` without one."""
    import difflib

    folded = {known.casefold(): known for known in names}
    near = difflib.get_close_matches(name.casefold(), folded, 1, SLIP)
    meant = folded[near[0]] if near else ""
    return meant if meant != name else ""


def translated(value: Any) -> Any:
    """Return the value that a text says, as ``ast.literal_eval`` reads it.

    Of lists and tables in text, which nobody writes, the text stays.
    """
    if not isinstance(value, str):
        return value
    if value in WORDS:
        return WORDS[value]
    for kind in (int, float):
        try:
            return kind(value) if _NUMBER.fullmatch(value) else value
        except ValueError:
            continue
    return value
