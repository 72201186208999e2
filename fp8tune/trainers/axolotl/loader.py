"""How Axolotl reads a config: yaml.safe_load, then pydantic classes.

The classes drop every key that they do not know, at the top and in tables; a plugin
that ``plugins`` lists brings keys of its own. Values are converted in pydantic's lax
mode. Then validators check how they fit together (``checks.toml``).

Source: Axolotl 0.18.0 and 0.19.0, cli/config.py, utils/config/__init__.py; ``python -m
tools.verdicts axolotl`` compares this with the trainer.
"""

from __future__ import annotations

from typing import Any

from fp8tune.formats.document import Path
from fp8tune.trainers.checks import Checks, Values
from fp8tune.trainers.faults import HINTS, Fault, Loaded, Loading, dotted
from fp8tune.trainers.hints import key_meant
from fp8tune.trainers.hugging_face import drop_share
from fp8tune.trainers.lax import CONVERTERS, NOTHING
from fp8tune.trainers.schema import Key, Schema

OUTSIDE = (
    *("strict", "axolotl_config_path", "xformers_attention", "sage_attention"),
    *("flex_attention", "flash_attention", "sdp_attention", "eager_attention"),
)
"""Keys that other parts of Axolotl read, beside its classes."""

NEWER = {"fp8_config": "Axolotl 0.19.0 has it; before, the recipe is tensorwise"}
"""Keys at the top that later releases have, and what follows."""

FLOATS = ("learning_rate", "loraplus_lr_embedding")
"""Keys whose texts Axolotl converts to numbers itself."""

PREFIX = "fsdp_"
"""What the keys of ``fsdp_config`` may begin with."""


class Loader:
    """Loads configs of one release."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.checks = Checks(schema, {"sharegpt": _sharegpt})

    def load(self, raw: dict[str, Any]) -> Loaded:
        """The config as the trainer holds it, and what it refuses or drops."""
        run = _Run(self, raw)
        run.table(run.keys, _with_version(raw), ())
        run.check()
        drop_share(run.values)
        return run.loaded

    def plugin_keys(self, raw: dict[str, Any]) -> dict[str, Key] | None:
        """The keys of the plugins of a file; ``None`` if one is not Axolotl's own."""
        names = raw.get("plugins") or []
        keys: dict[str, Key] = {}
        known = {
            name.rpartition(".")[2]: name for name in self.schema.classes if "." in name
        }
        for name in names if isinstance(names, list) else [names]:
            if not str(name).startswith("axolotl.integrations."):
                return None
            keys |= self.schema.classes.get(
                known.get(str(name).rpartition(".")[2], ""), {}
            )
        return keys


class _Run(Loading):
    """One file on its way through the classes."""

    def __init__(self, loader: Loader, raw: dict[str, Any]) -> None:
        super().__init__(loader.schema)
        self.raw, self.checks = raw, loader.checks
        more = loader.plugin_keys(raw)
        self.open = more is None
        self.keys = self.schema.classes[self.schema.root] | (more or {})
        self.plugins = {
            key: name
            for name, keys in self.schema.classes.items()
            if "." in name
            for key in keys
        }

    def table(self, keys: dict[str, Key], raw: dict[str, Any], path: Path) -> None:
        """Load one table."""
        for name in raw:
            key = self._own_name(keys, name, path)
            if key not in keys:
                self.unknown((*path, name), keys, raw[name])
        for name, spec in keys.items():
            here = (*path, name)
            given = next((n for n in (name, PREFIX + name) if n in raw), "")
            if path != ("fsdp_config",) and given != name:
                given = ""
            if given:
                self.written.add(dotted(here))
                self.value(spec, raw[given], (*path, given), dotted(here))
            elif spec.required and not path:
                self.fault("missing-key", here, name=name)
            else:
                self.values[dotted(here)] = spec.default

    @staticmethod
    def _own_name(keys: dict[str, Key], name: Any, path: Path) -> Any:
        """A key without its deprecated prefix."""
        if path == ("fsdp_config",) and name not in keys:
            return str(name).removeprefix(PREFIX)
        return name

    def value(self, spec: Key, raw: Any, path: Path, name: str) -> None:
        """Load one value."""
        if raw is None and spec.optional:
            self.values[name] = raw
            return
        kinds = spec.base.split(" | ")
        inner = next((k for k in kinds if k in self.schema.classes), "")
        if inner and isinstance(raw, dict):
            self.values[name] = raw
            self.table(self.schema.classes[inner], raw, path)
            return
        if raw in spec.allowed and type(raw) in map(type, spec.allowed):
            self.values[name] = raw
            return
        converted = (self.converted(kind, raw, path) for kind in kinds)
        value = next((each for each in converted if each is not NOTHING), NOTHING)
        if value is NOTHING:
            self.misfit(spec, raw, path)
        elif (
            spec.bound and isinstance(value, (int, float)) and not spec.contains(value)
        ):
            self.fault("value-out-of-range", path, value=raw, bound=spec.bound, hint="")
        else:
            self.values[name] = value
            if isinstance(raw, bool) and not isinstance(value, bool):
                self.fault("boolean-for-number", path, value=raw, result=value)

    def misfit(self, spec: Key, raw: Any, path: Path) -> None:
        """Note a value that is of none of the types of its key."""
        words = [each for each in spec.allowed if isinstance(each, str)]
        if words and "Literal" in spec.base and isinstance(raw, str):
            self.not_allowed_by(spec, path, raw)
            return
        number = isinstance(raw, str) and spec.base != "str" and "[" not in spec.base
        kind = "value-not-convertible" if number else "wrong-type"
        self.fault(kind, path, value=raw, type=spec.kind)

    def converted(self, kind: str, raw: Any, path: Path) -> Any:
        """A value as one type; ``NOTHING`` if it is none."""
        if kind in CONVERTERS:
            return CONVERTERS[kind](raw)
        whole, _, inside = kind.rstrip("]").partition("[")
        if inside == "Dataset" and isinstance(raw, list) and raw:
            return self.entries(raw, path)
        inside = inside.rpartition(", ")[2]
        if inside == "Dataset":
            return NOTHING
        if whole == "list" and isinstance(raw, list):
            found = [self.converted(inside, each, path) for each in raw]
            return NOTHING if any(each is NOTHING for each in found) else found
        if whole == "dict" and isinstance(raw, dict):
            bad = any(self.converted(inside, v, path) is NOTHING for v in raw.values())
            return NOTHING if bad else raw
        return NOTHING

    def entries(self, raw: list[Any], path: Path) -> Any:
        """The data sets of a list, with the keys that no kind of them has."""
        if not all(isinstance(each, dict) for each in raw):
            return NOTHING
        keys = self.schema.classes["Dataset"]
        for number, entry in enumerate(raw):
            for name in entry.keys() - keys.keys():
                self.unknown((*path, number, name), keys, entry[name])
        return raw

    def unknown(self, path: Path, keys: dict[str, Key], value: Any) -> None:
        """Note a key that is dropped; none at the top where plugins are unknown."""
        name = str(path[-1])
        if len(path) == 1 and (self.open or name in OUTSIDE):
            return
        if value is None:  # as if it were not there
            return
        table = (
            f"`{dotted(path[:-1])}`" if path[1:] else f"an {self.schema.title} config"
        )
        facts: dict[str, Any] = {"hint": ""}
        plugin = self.plugins.get(name, "") if len(path) == 1 else ""
        if len(path) == 1 and name in NEWER:
            facts["hint"] = NEWER[name]
        elif plugin:
            facts["hint"] = f"it is a key of {plugin}: add that to `plugins`"
        elif len(self.faults) < HINTS:
            inner = path[0] not in self.schema.sections  # it may be a switch too
            place = (*path[:1], 0, name) if len(path) == 2 and inner else path
            facts["hint"] = self.hints.for_key(place, keys)
            facts |= key_meant(facts["hint"], path, keys)
        strict = path[:-1] == ("fp8_config",)
        kind = "unknown-key" if strict else "ignored-key"
        self.fault(kind, path, name=name, table=table, **facts)

    def check(self) -> None:
        """Note values that do not fit together, and texts that are no numbers."""
        said = any(fault.kind == "wrong-type" for fault in self.faults)
        cannot = {"reason": self.checks.cannot, "hint": ""}
        found = [*self.checks.refusals(_Nulls(self.raw), self.raw)]
        for name in FLOATS:
            if (text := self.values.get(name)) and isinstance(text, str):
                try:
                    self.values[name] = float(text)
                except ValueError:
                    facts = {"key": name, **cannot}
                    found.append(Fault("refused-settings", (name,), facts))
        for fault in found:
            if not said or fault.facts["reason"] != self.checks.cannot:
                self.faults.append(fault)  # else it follows from a value named already


class _Nulls(dict[str, Any]):
    """Keys and values; an absent key is null."""

    def __missing__(self, key: str) -> None:
        return None


def _sharegpt(values: Values) -> bool:
    """Whether a data set has a type that is gone."""
    kinds = (each.get("type") for each in values["datasets"] if isinstance(each, dict))
    return any(str(kind).startswith("sharegpt") for kind in kinds)


def _with_version(raw: dict[str, Any]) -> dict[str, Any]:
    """The file with FSDP's version at the top, where ``fsdp_config`` has it."""
    inner = raw.get("fsdp_config")
    if raw.get("fsdp_version") or not isinstance(inner, dict):
        return raw
    version = inner.get("version") or inner.get("fsdp_version")
    return raw | {"fsdp_version": version or (1 if inner else None)}
