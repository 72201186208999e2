"""What KempnerForge's loader makes of a config, and what it refuses.

The trainer overlays the file on default dataclasses, coerces by annotated type,
and checks in ``__post_init__``. Anything else is Python: a list that meets ``<``
raises, a list that meets nothing passes. The same operations run here on the
same values, so that odd input ends as it does there. Unlike the trainer, which
stops at the first fault, all faults are collected.

Source: kempnerforge/config/loader.py at commit 5666d0d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.job import Prose
from fp8tune.trainers.checks import Checks
from fp8tune.trainers.faults import Loaded, Loading, dotted
from fp8tune.trainers.kempnerforge import coercion
from fp8tune.trainers.kempnerforge.coercion import COERCIONS, NOTES, oddities
from fp8tune.trainers.kempnerforge.derived import DERIVED, unknown_modules
from fp8tune.trainers.schema import Key, Schema

ALWAYS_READ = ("model", "train", "eval", "distributed")
"""Sections whose attributes ``JobConfig.validate`` reads in every run."""

_FAULTY = object()
_NUMBERS = ("int", "float")

READ = ("DatasetSource", "TrainingPhase", "FreezeStage")
"""Classes whose entries in lists the trainer's checks read."""


class Loader:
    """Holds configs of one schema as the trainer would."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.defaults = defaults(schema)
        self.checks = Checks(schema, DERIVED)
        self._usual: dict[str, dict[str, coercion.Usual]] = {}
        self._names: dict[tuple[str, str], dict[str, str]] = {}

    def load(self, raw: dict[str, Any]) -> Loaded:
        """Hold parsed TOML as the trainer would."""
        config = ConfigLoading(self)
        config.sections(raw)
        return config.loaded

    def usual(self, name: str) -> dict[str, coercion.Usual]:
        """The usual values of the keys of a class."""
        if name not in self._usual:
            keys = self.schema.classes[name]
            self._usual[name] = {key: coercion.usual(keys[key]) for key in keys}
        return self._usual[name]

    def names(self, prefix: str, name: str) -> dict[str, str]:
        """The dotted names of the keys of a class, below a section or key."""
        if (prefix, name) not in self._names:
            keys = self.schema.classes[name]
            self._names[prefix, name] = {key: f"{prefix}.{key}" for key in keys}
        return self._names[prefix, name]


def defaults(schema: Schema) -> dict[str, Any]:
    """Dotted defaults of the sections that exist even if the file lacks them.

    Of the others the name, which says whether they are there.
    """
    found: dict[str, Any] = {}
    for section in schema.sections:
        if schema.optional(section):
            found[section] = False
        else:
            keys = schema.classes[schema.section_class(section)]
            found |= {
                f"{section}.{n}": key.effective_default for n, key in keys.items()
            }
    return found


def headerless(raw: dict[str, Any], schema: Schema) -> tuple[str, list[str]] | None:
    """The section whose header is missing above two or more of its keys.

    Returns the section and the stray keys, if all unknown top-level keys belong
    to one section that the file does not have.
    """
    stray = [name for name in raw if name not in schema.sections]
    if len(stray) < 2:
        return None
    for section in schema.sections:
        keys = schema.classes[schema.section_class(section)]
        if section not in raw and all(name in keys for name in stray):
            return section, stray
    return None


class ConfigLoading(Loading):
    """A config in the making: values, keys that are written, and faults."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader.schema)
        self.loader = loader
        self.values = dict(loader.defaults)

    def sections(self, raw: dict[str, Any]) -> None:
        """Load a whole config."""
        stray = headerless(raw, self.schema)
        if stray:
            section, names = stray
            shown = names if len(names) < 6 else [*names[:4], "..."]
            facts = {"names": shown, "section": section}
            self.fault("missing-header", (names[0],), **facts)
            self._drop(section)  # its defaults are not what the file means
        for section, table in raw.items():
            if section not in self.schema.sections:
                if not (stray and section in stray[1]):
                    self.unknown((section,), f"a {self.schema.title} config", {}, table)
                continue
            if section in self.values:
                self.values[section] = True
            if isinstance(table, dict):
                self.section(section, table)
            else:
                self.written.add(section)
                self._drop(section)
        if "vlm" in raw and "adapter" not in raw:
            self._fill("adapter", self.schema.classes["AdapterConfig"])
        self._not_tables(raw)
        for path, module, aliases in unknown_modules(self.values, self.written):
            hint = self.hints.for_name(module, aliases)
            self.not_allowed(path, module, aliases, hint, "unknown-freeze-module")

    def section(self, section: str, table: dict[str, Any]) -> None:
        """Load the table of one section."""
        name = self.schema.section_class(section)
        if self.schema.optional(section):
            name = self._variant(name, table)
            self._fill(section, self.schema.classes[name])
        self.written.add(section)
        values, odd = self._table(name, table, (section,))
        self._keep(section, name, values, odd)

    def _fill(self, prefix: str, keys: dict[str, Key]) -> None:
        for key, spec in keys.items():
            self.values[f"{prefix}.{key}"] = spec.effective_default

    def _keep(
        self, prefix: str, name: str, values: dict[str, Any], odd: Iterable[str]
    ) -> None:
        """Keep a table's values under dotted names.

        Those of ``odd`` keys are looked at: what is faulty or odd is unknown.
        """
        names = self.loader.names(prefix, name)
        dotted = [names[key] for key in values]
        self.written.update(dotted)
        self.values.update(zip(dotted, values.values(), strict=True))
        for key in odd:
            if not coercion.plain(values[key]):
                spec = self.schema.classes[name][key]
                self._keep_odd(names[key], spec, values[key])

    def _keep_odd(self, name: str, spec: Key, value: Any) -> None:
        """Keep a table, a list, or what cannot be worked with."""
        keys = self.schema.classes.get(spec.base)
        if keys is not None and isinstance(value, dict):
            self._fill(name, keys)
            self._keep(name, spec.base, value, value)
        if value is None and spec.optional:
            return
        if value is _FAULTY or (spec.base in _NUMBERS and not coercion.usable(value)):
            del self.values[name]

    def _variant(self, name: str, table: dict[str, Any]) -> str:
        variants = self.schema.variants.get(name)
        if variants is None:
            return name
        chosen = table.get(variants.key, variants.default)
        return variants.classes.get(chosen, name) if isinstance(chosen, str) else name

    def _drop(self, section: str) -> None:
        for key in [k for k in self.values if k.startswith(f"{section}.")]:
            del self.values[key]

    def _not_tables(self, raw: dict[str, Any]) -> None:
        """Fault the sections that are no tables, by when the trainer reads them."""
        sections = self.schema.sections
        if all(isinstance(raw[name], dict) for name in raw if name in sections):
            return
        vlm = "vlm" in raw
        tokens = self.values.get("vision_encoder.num_tokens", 0)
        counted = vlm and isinstance(tokens, int) and tokens > 0
        read = {
            "vision_encoder": vlm,
            "vlm": counted,
            "adapter": counted,
            "video": counted,
            **dict.fromkeys(ALWAYS_READ, True),
        }
        ignored = () if vlm else ("vision_encoder", "adapter")
        for section, value in raw.items():
            if section in self.schema.sections and not isinstance(value, dict):
                if read.get(section):
                    self.fault("section-not-a-table", (section,), value=value)
                elif section not in ignored:
                    self.fault("table-replaced", (section,), value=value)

    def table(self, name: str, table: dict[str, Any], path: Path) -> dict[str, Any]:
        """Coerce and check one table; faulty values come back as ``_FAULTY``."""
        return self._table(name, table, path)[0]

    def _table(
        self, name: str, table: dict[str, Any], path: Path
    ) -> tuple[dict[str, Any], list[str]]:
        """Coerce and check one table; also the keys whose values are not as usual."""
        usual = self.loader.usual(name)
        values = {}
        odd = []
        for key, raw in table.items():
            if key in usual:
                kind, low, high, allowed = usual[key]
                if (
                    type(raw) is kind
                    and low <= raw <= high
                    and (allowed is None or raw in allowed)
                ):
                    values[key] = raw
                else:
                    spec = self.schema.classes[name][key]
                    values[key] = self.value(spec, raw, (*path, key))
                    odd.append(key)
            elif not self.hints.in_some_variant(name, key, table):
                keys = self.schema.classes[name]
                self.unknown((*path, key), f"[{dotted(path)}]", keys, raw)
        for key in self.schema.required[name]:
            if key not in table:
                self.fault("missing-key", path, key=f"{dotted(path)}.{key}", name=key)
        for key in odd:
            spec = self.schema.classes[name][key]
            checked = spec.checked and values[key] is not _FAULTY
            if values[key] is None and spec.optional:
                continue
            if checked and (not spec.only_if or self._active(name, spec, values)):
                self.check(spec, values, (*path, key), table[key])
        self._cross_check(name, values, path)
        return values, odd

    def unknown(
        self, path: Path, table: str, keys: Mapping[str, Key], value: Any
    ) -> None:
        """Note a key that the trainer does not have, with the one that was meant."""
        facts = {"table": table, **self.meant(path, keys)}
        home, spec = facts.get("home"), keys.get(str(facts.get("meant")))
        if home and not self._moves(home, value):
            del facts["home"]
        if spec is not None and not spec.takes(value):
            del facts["meant"]  # the key may be that one, its value cannot
        self.fault("unknown-key", path, name=str(path[-1]), **facts)

    def _moves(self, home: str, value: Any) -> bool:
        """Whether a value may move to a key without making another run of it."""
        spec = dict(self.schema.dotted_keys())[home]
        return spec.takes(value) and not self.schema.optional(home.partition(".")[0])

    def _active(self, name: str, spec: Key, values: dict[str, Any]) -> bool:
        """Whether the switch of a conditional check is on."""
        keys = self.schema.classes[name]
        state = values.get(spec.only_if, keys[spec.only_if].default)
        return isinstance(state, int) and state > 0

    def value(self, spec: Key, raw: Any, path: Path) -> Any:
        """One value after the loader's coercion."""
        if raw is None and spec.optional:
            return None
        base = spec.base
        coerce = COERCIONS.get(base)
        value = raw if coerce is None else self._coerced(coerce, spec, raw, path)
        if value is not _FAULTY:
            for kind, facts in oddities(spec, dotted(path), raw, value):
                self.fault(kind, path, **facts)
        if coerce is not None:
            return value
        if spec.allowed and base != "str":
            return raw if self._allowed(spec, raw, path) else _FAULTY
        if base in self.schema.classes:
            if isinstance(raw, dict):
                return self.table(base, raw, path)
            self.fault("table-replaced", path, value=raw)
        if base.startswith(("list[", "tuple[")):
            return self._sequence(base, raw, path)
        return raw

    def _coerced(
        self, coerce: Callable[[Any], Any], spec: Key, raw: Any, path: Path
    ) -> Any:
        try:
            return coerce(raw)
        except (ValueError, OverflowError):
            wanted = spec.kind
            self.fault("value-not-convertible", path, value=raw, type=wanted)
            return _FAULTY

    def _sequence(self, base: str, raw: Any, path: Path) -> Any:
        element = base[base.index("[") + 1 : -1].split(",")[0]
        if element in READ and not self._entries(raw, path):
            return _FAULTY
        if isinstance(raw, tuple):  # of an argument
            raw = list(raw)
        if not isinstance(raw, list):
            return [raw] if base.startswith("list[") else raw
        if element not in self.schema.classes:
            return raw
        return [
            self.table(element, item, (*path, index))
            if isinstance(item, dict)
            else item
            for index, item in enumerate(raw)
        ]

    def _entries(self, raw: Any, path: Path) -> bool:
        """Whether all entries of a list are tables, a fault for each that is not."""
        entries = raw if isinstance(raw, list) else [raw]
        odd = [n for n, each in enumerate(entries) if not isinstance(each, dict)]
        if not isinstance(raw, list):
            odd = [0]
        for index in odd:
            facts = {"value": entries[index], "table": dotted(path)}
            self.fault("entry-not-a-table", (*path, index), **facts)
        return not odd

    def _allowed(self, spec: Key, value: Any, path: Path) -> bool:
        if value in spec.allowed:
            return True
        is_precision = dotted(path) == self.schema.job["precision"]
        kind = "unknown-precision" if is_precision else "value-not-allowed"
        self.not_allowed_by(spec, path, value, kind)
        return False

    def check(self, spec: Key, values: dict[str, Any], here: Path, raw: Any) -> None:
        """The checks of one key's own value, as ``__post_init__`` runs them.

        ``raw`` is the value as it is written, before coercion.
        """
        key = str(here[-1])
        value = values[key]
        if spec.base == "str":
            if spec.allowed and not self._allowed(spec, value, here):
                values[key] = _FAULTY
            return
        for problem in coercion.out_of_range(spec, value):
            kind = "wrong-type" if problem.bound is None else "value-out-of-range"
            facts = {"value": problem.value, "type": problem.type}
            if problem.bound is not None:
                facts |= coercion.as_written(problem, raw)
                facts["hint"] = "" if problem.path else coercion.default(spec)
            self._forget_notes(here)
            self.fault(kind, here + problem.path, **facts)
            values[key] = _FAULTY

    def _forget_notes(self, path: Path) -> None:
        """Drop what is odd about a value where the value is refused anyway."""
        self.faults = [f for f in self.faults if f.path != path or f.kind not in NOTES]

    def _cross_check(self, name: str, values: dict[str, Any], path: Path) -> None:
        """Note the first check of the class that fails, as the trainer does."""
        checks = self.loader.checks
        if name not in checks.by_class:
            return
        keys = self.schema.classes[name]
        table = {key: spec.effective_default for key, spec in keys.items()} | values
        right = {key: v for key, v in table.items() if v is not _FAULTY}
        for refusal in islice(checks.refused(right, values, name), 1):
            facts = {"reason": Prose(refusal.reason)}
            key = next((key for key in refusal.keys if key in values), "")
            if not key:
                self.fault(refusal.fault, path, **facts)
                return
            self.fault(refusal.fault, (*path, key), value=values[key], **facts)
            values[key] = _FAULTY
