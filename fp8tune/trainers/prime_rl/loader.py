"""What prime-rl's config classes make of a TOML file.

They are pydantic models that forbid unknown keys and convert values as pydantic's lax
mode does ("false" becomes false, true becomes 1). The text "None" is null. A table that
stands for one of several kinds names it by ``type``; where the default has a kind, that
kind is added. Then each table checks how its values fit together (checks.toml).

Source: prime-rl 0.8.1.dev67, packages/prime-rl-configs; prime-pydantic-config 0.4.3;
pydantic 2.13. ``python -m tools.verdicts prime_rl`` compares this with prime-rl.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.job import Prose, Words
from fp8tune.trainers.about import read_toml
from fp8tune.trainers.checks import Checks, Refusal
from fp8tune.trainers.faults import HINTS, Loaded, Loading, dotted
from fp8tune.trainers.lax import CONVERTERS, NOTHING, text_of
from fp8tune.trainers.prime_rl import shared
from fp8tune.trainers.prime_rl.derived import DERIVED, fill
from fp8tune.trainers.schema import Key, Schema

NONE = "None"
"""Text that stands for null, which TOML lacks."""

DEPTH = 8
"""Levels of tables; the schemas have fewer."""
OPEN = ("VllmConfig",)
"""Classes that hand unknown keys on, here to vLLM."""

REPLACED: dict[str, tuple[str, dict[str, str], str]] = {
    "fp8": ("quantization", {"type": "fp8"}, 'quantization = { type = "fp8" }')
}
"""Switches that earlier releases had: the key and value that say the same now, as text.

FP8 has the same filters and grouped GEMMs by default
(https://github.com/PrimeIntellect-ai/prime-rl/pull/2910).
"""


class Loader:
    """Loads files of one command."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.checks = Checks(schema, DERIVED)
        self.tables = {n for n, k in schema.dotted_keys() if k.base in schema.classes}

    def load(self, raw: dict[str, Any]) -> Loaded:
        """The config as the trainer holds it, with what it refuses or misreads."""
        run = _Run(self)
        run.file(raw)
        values = {
            name: value
            for name, value in _flat(run.tree, "")
            if value is not None or name in self.tables
        }
        return Loaded(values, run.written, run.faults)


def of_earlier_release(title: str, key: str) -> str:
    """Return the earlier release that has a key, ``""`` if none has.

    ``title`` is the schema's, ``prime-rl 0.8.1 (sft)``. From ``earlier.toml``.
    """
    known = _earlier()
    command = title.removesuffix(")").rpartition(" (")[2]
    return str(known["release"]) if key in known[command] else ""


@cache
def _earlier() -> dict[str, Any]:
    return read_toml("prime_rl", "earlier.toml")


class Table(dict[str, Any]):
    """The values of one config class; ``own`` are the keys that the file sets."""

    own: frozenset[str] = frozenset()


class _Run(Loading):
    """One file on its way through the config classes."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader.schema)
        self.checks = loader.checks
        self.tree = Table()
        self.refusals = 0
        self.shared: dict[Path, Path] = {}

    def file(self, raw: dict[str, Any]) -> None:
        """Hand the shared tables down, then build the whole config."""
        self.written |= {dotted(path) for path in _paths(raw, ())}
        whole = _copied(raw, DEPTH)
        if self.schema.root == "SFTConfig":
            shared.sft(whole)
        elif self.schema.root == "RLConfig":
            self.shared, conflicts = shared.rl(whole)
            for source, target in conflicts[:1]:
                reason = f"`{source}` and `{target}` have different values"
                hint = "set it in one place"
                self.refuse(Refusal([target, source], reason, hint), ())
        self.tree = self.table(self.schema.root, whole, ())

    def fault(self, kind: str, path: Path, **facts: Any) -> None:
        """Note a fault, once where a shared value is wrong in several tables."""
        self.refusals += kind != "boolean-for-number"
        while path not in self.shared and path[:-1] in self.shared:
            path = path[:-1]
        path = self.shared.get(path, path)
        is_table = kind == "missing-key" and path != (facts["name"],)
        key = (*path, facts["name"]) if is_table else path
        super().fault(kind, path, **{"key": dotted(key), **facts})
        if self.faults[-1] in self.faults[-HINTS - 1 : -1]:
            del self.faults[-1]

    def refuse(self, refusal: Refusal, path: Path) -> None:
        """Note that values do not fit together, at the first one that the file sets."""
        keys = [(*path, *name.split(".")) for name in refusal.keys]
        here = next((k for k in keys if dotted(k) in self.written), keys[0])
        facts = {"reason": refusal.reason, "hint": refusal.hint}
        self.fault("refused-settings", here, **facts)

    def table(self, name: str, raw: dict[str, Any], path: Path) -> Table:
        """Build one config class from its table, with the defaults of absent keys."""
        before, table = self.refusals if path else 0, Table()
        table.own = frozenset(raw)
        variants = self.schema.variants.get(name)
        if variants is not None:
            chosen = self.variant(name, raw, path)
            if not chosen:
                return table
            name = chosen
        keys = self.schema.classes[name]
        for key in raw:
            if key not in keys and name not in OPEN:
                self.unknown((*path, key), keys, raw)
        raw = _as_now(raw, keys)
        for key, spec in keys.items():
            value = self.held(spec, raw, (*path, key))
            if value is not NOTHING:
                table[key] = value
        if self.refusals == before and name in self.checks.by_class:
            fill(name, table)
            written = {dotted(path) for path in _paths(raw, ())}
            for refusal in islice(self.checks.refused(table, written, name), 1):
                self.refuse(refusal, path)
        return table

    def held(self, spec: Key, raw: dict[str, Any], path: Path) -> Any:
        """The value of a key, or its default; ``NOTHING`` if it has to be there."""
        key = path[-1]
        if key in raw:
            return self.value(spec, raw[str(key)], path)
        if spec.required:
            self.fault("missing-key", path[:-1] or path, name=key)
            return NOTHING
        default = spec.effective_default
        if spec.base in self.schema.classes and isinstance(default, dict):
            return self.table(spec.base, default, path)
        return copy.deepcopy(default)

    def variant(self, name: str, raw: dict[str, Any], path: Path) -> str:
        """The class that a table's ``type`` chooses; ``""`` if it chooses none."""
        variants = self.schema.variants[name]
        value = raw.get(variants.key)
        here = (*path, variants.key)
        allowed, keys = list(variants.classes), self.schema.classes[name]
        if variants.key not in raw:
            self.fault("missing-kind", path, name=variants.key, allowed=allowed)
        elif not isinstance(value, str) or value not in variants.classes:
            self.not_allowed_by(keys[variants.key], here, value)
        else:
            return variants.classes[value]
        return ""

    def unknown(self, path: Path, keys: dict[str, Key], raw: dict[str, Any]) -> None:
        """Note a key that the class does not have."""
        facts: dict[str, Any] = {"hint": ""}
        instead, becomes, text = REPLACED.get(str(path[-1]), ("", {}, ""))
        if instead in keys:
            name = str(path[-1])
            if raw[name] is False or instead in raw:
                facts["hint"] = f"remove it: since July 2026 `{instead}` replaces it"
            else:
                facts["hint"] = f"since July 2026 it is written `{text}`"
            if raw[name] is True and instead not in raw:
                facts |= {"instead": Words(instead), "becomes": becomes}
        else:
            facts = self.meant(path, keys)
        title = self.schema.title
        if earlier := of_earlier_release(title, dotted(path)):
            why = f"release {earlier} has this key, {title.partition(' (')[0]} does not"
            same = f"; {facts['hint']}" if "home" in facts or instead in keys else ""
            facts |= {"hint": Prose(why + same), "earlier": f"release {earlier}"}
            facts.pop("meant", None)  # a key that is like it is another one
        table = (
            f"[{dotted(path[:-1])}]" if path[1:] else f"a {self.schema.title} config"
        )
        self.fault("unknown-key", path, name=str(path[-1]), table=table, **facts)

    def value(self, spec: Key, raw: Any, path: Path) -> Any:
        """One value as pydantic converts it; ``NOTHING`` if it refuses it."""
        if raw == NONE:
            raw = None
        if raw is None and spec.optional:
            return None
        if raw in spec.allowed and type(raw) in map(type, spec.allowed):
            return self.switched(spec, raw, path)
        if spec.base in self.schema.classes:
            if isinstance(raw, dict):
                return self.table(spec.base, _with_kind(spec, raw), path)
            self.fault("section-not-a-table", path, value=raw)
            return NOTHING
        before = self.refusals
        found = (self.converted(kind, raw, path) for kind in spec.base.split(" | "))
        value = next((value for value in found if value is not NOTHING), NOTHING)
        if value is NOTHING:
            if self.refusals == before:  # nothing was said of an entry of a list
                self.misfit(spec, raw, path)
        elif spec.bound and not spec.contains(value):
            self.fault("value-out-of-range", path, value=raw, bound=spec.bound, hint="")
            return NOTHING
        elif isinstance(raw, bool) and not isinstance(value, bool):
            self.fault("boolean-for-number", path, value=raw, result=value)
        return value

    def switched(self, spec: Key, raw: Any, path: Path) -> Any:
        """An allowed value; where it stands for a table, true is one and false none."""
        if spec.base in self.schema.classes and isinstance(raw, bool):
            return self.table(spec.base, {}, path) if raw else None
        return raw

    def misfit(self, spec: Key, raw: Any, path: Path) -> None:
        """Note a value that has no meaning as what it should be."""
        if spec.base == "Literal":
            self.not_allowed_by(spec, path, raw)
            return
        words = [spec.kind, *(f'"{value}"' for value in spec.allowed)]
        words += ['"None"'] * spec.optional
        kind = "wrong-type" if not isinstance(raw, str) else "value-not-convertible"
        if spec.base == "str" or spec.kind == "an array":
            kind = "wrong-type"
        self.fault(kind, path, value=raw, type=" or ".join(words))

    def converted(self, kind: str, raw: Any, path: Path) -> Any:
        """A value as one type, by pydantic's lax rules; ``NOTHING`` if it is none."""
        if kind in CONVERTERS:
            return CONVERTERS[kind](raw)
        whole, _, inside = kind.rstrip("]").partition("[")
        if whole == "list" and isinstance(raw, list):
            entry = Key(type=inside, base=inside, checked=False)
            found = [self.entry(entry, v, (*path, n)) for n, v in enumerate(raw)]
            return NOTHING if any(value is NOTHING for value in found) else found
        if whole == "dict" and isinstance(raw, dict):
            inside = inside.partition(", ")[2]
            entry = Key(type=inside, base=inside, checked=False)
            values = {k: self.entry(entry, v, (*path, k)) for k, v in raw.items()}
            return NOTHING if NOTHING in values.values() else values
        return NOTHING

    def entry(self, spec: Key, raw: Any, path: Path) -> Any:
        """One entry of a list or a map."""
        if spec.base in self.schema.classes and not isinstance(raw, dict):
            table = dotted(path[:-1])
            self.fault("entry-not-a-table", path, value=raw, table=table)
            return NOTHING
        return self.value(spec, raw, path) if raw != NONE else text_of(raw)


def _as_now(raw: dict[str, Any], keys: dict[str, Key]) -> dict[str, Any]:
    """Return a table with what switches of earlier releases are now."""
    now = {
        instead: becomes
        for old, (instead, becomes, _) in REPLACED.items()
        if raw.get(old) is True and instead in keys and instead not in raw
    }
    return raw | now


def _paths(raw: dict[str, Any], path: Path) -> Iterator[Path]:
    """The path of each key of a file outside of lists, as deep as tables go."""
    for key, value in raw.items():
        yield (*path, key)
        if isinstance(value, dict) and len(path) < DEPTH:
            yield from _paths(value, (*path, key))


def _copied(raw: dict[str, Any], levels: int) -> dict[str, Any]:
    """A copy of tables as deep as those that are shared."""
    return {
        key: _copied(value, levels - 1) if isinstance(value, dict) and levels else value
        for key, value in raw.items()
    }


def _flat(table: Table, prefix: str) -> Iterator[tuple[str, Any]]:
    """The values by dotted keys; a table's own key is true, or null if it is absent."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Table):
            yield name, True
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _with_kind(spec: Key, raw: dict[str, Any]) -> dict[str, Any]:
    """A table with the ``type`` of its default, if that has one."""
    if isinstance(spec.default, dict) and "type" in spec.default:
        return spec.default | raw
    return raw
