"""What torchtitan's config manager makes of a TOML file.

It builds one dataclass per table from the values as they are. Types are annotations:
tyro warns of a value that does not match and keeps it. So text stays text, a list of
one word may be the word's letters, and what happens depends on who reads the key.

Source: torchtitan/config/manager.py and train.py of 0.2.2, config_manager.py of 0.1.0;
``tests/data/torchtitan_verdicts.jsonl.gz`` has the verdicts of the releases themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.formats.values import find
from fp8tune.job import Prose, Words
from fp8tune.suggest import closest
from fp8tune.trainers.about import trainers
from fp8tune.trainers.faults import HINTS, Loaded, Loading, dotted
from fp8tune.trainers.hints import value_meant
from fp8tune.trainers.schema import Key, Schema
from fp8tune.trainers.torchtitan import models, releases
from fp8tune.trainers.torchtitan.releases import LENIENT

READ = ("job", "model", "training", "parallelism", "activation_checkpoint", "compile")
"""Tables of which the trainer reads keys before the model is sharded, in any run."""

COMPUTED = (
    "training.local_batch_size",
    "training.global_batch_size",
    "training.seq_len",
)
"""Numbers that it works with until then; the parallel degrees are others."""

CONVERTERS = {
    LENIENT: ("float8", "mx"),
    "": (
        "quantize.linear.float8",
        "quantize.linear.mx",
        "quantize.grouped_mm.float8",
        "quantize.grouped_mm.mx",
    ),
}
"""Names in ``model.converters`` by release, ``""`` for all others."""

RECIPES = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
DTYPES = ("float16", "float32", "bfloat16")
"""What the trainer maps to a torch dtype."""

TRUE_WORDS = ("true", "yes", "on", "1")

_NOTHING = object()
"""A value that the trainer refuses or fails on: it has no meaning."""


class Loader:
    """Loads configs of one release."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.defaults = {
            name: key.effective_default
            for name, key in schema.dotted_keys()
            if key.base not in schema.classes
        }

    def load(self, raw: dict[str, Any]) -> Loaded:
        """The config as the trainer holds it, with what it refuses or misreads."""
        run = _Run(self.schema)
        run.values = dict(self.defaults)
        run.file(raw)
        return run.loaded


class _Run(Loading):
    """One file on its way through the loader."""

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.version = schema.version
        self.whole = f"a {schema.title} config"
        self.raw: dict[str, Any] = {}
        self.own_keys = False

    def file(self, raw: dict[str, Any]) -> None:
        """Load all tables, then look at what depends on several keys."""
        self.raw = raw
        self.own_keys = bool(list(_modules(raw)))
        for section, table in raw.items():
            path: Path = (section,)
            if section not in self.schema.sections:
                self.unknown(path, self.whole, self.schema.sections)
            elif isinstance(table, dict):
                self.table(self.schema.sections[section], table, path)
            elif isinstance(table, (int, float)):  # tyro takes the defaults then
                self.fault("not-converted", path, value=table, type="a table")
            else:
                self.written.add(section)
                self.drop(section)
                read = section in READ
                kind = "section-not-a-table" if read else "table-replaced"
                self.fault(kind, path, value=table)
        self.model()
        self.precision()
        self.checkpointing()
        self.sharding()

    def table(self, name: str, table: dict[str, Any], path: Path) -> None:
        """Load one table and those inside it."""
        keys = self.schema.classes[name]
        for key, raw in table.items():
            here = (*path, key)
            spec = keys.get(key)
            if spec is None:
                self.unknown(here, f"[{dotted(path)}]", keys)
            elif spec.base in self.schema.classes:
                if isinstance(raw, dict):
                    self.table(spec.base, raw, here)
                else:
                    self.drop(dotted(here))
                    self.fault("table-replaced", here, value=raw)
            else:
                self.written.add(dotted(here))
                self.values[dotted(here)] = raw
                self.value(spec, raw, here)

    def drop(self, prefix: str) -> None:
        """Forget all values of a table, and its defaults."""
        for key in [key for key in self.values if key.startswith(f"{prefix}.")]:
            del self.values[key]

    def unknown(self, path: Path, table: str, keys: Any) -> None:
        """Note a key that this release does not have, unless a module may add it."""
        if self.own_keys:
            return
        value = find(self.raw, path)
        if releases.inside(self.version, path, value, self.raw):
            for key in value:
                self.unknown((*path, key), self.whole, ())
            return
        facts: dict[str, Any] = {"hint": ""}
        if (now := self.earlier.get(dotted(path))) is not None:
            facts |= {"earlier": "releases before 0.1.0", "now": now}
            if value is not False or " = " not in now:
                self.forget(now)
        elif len(self.faults) < HINTS:
            facts = self.elsewhere(path)
            nested = len(path) > 1 and path[0] not in self.schema.sections
            if not facts["hint"] and not nested:
                facts |= self.meant(path, keys)
        kind = "ignored-key" if self.version == LENIENT else "unknown-key"
        name = dotted(path) if table == self.whole else str(path[-1])
        self.fault(kind, path, name=name, table=table, **facts)

    @cached_property
    def earlier(self) -> dict[str, str]:
        """The keys that only releases before 0.1.0 have."""
        return trainers()["torchtitan"].earlier_keys(self.raw)

    def forget(self, now: str) -> None:
        """Forget the value of a key that the file sets by an earlier name."""
        match = re.match(r"`([\w.]+)", now)
        if match and match[1] not in self.written:
            self.values.pop(match[1], None)

    def elsewhere(self, path: Path) -> dict[str, Any]:
        """Facts for a fix of a key that other releases have."""
        found = releases.elsewhere(self.version, path, self.raw)
        facts: dict[str, Any] = {"hint": Prose(found.hint)}
        table, _, name = found.home.rpartition(".")
        if found.gone:
            facts["gone"] = Prose(found.gone)
        elif found.home and table == dotted(path[:-1]):
            facts |= {"meant": Words(name), "sure": False}
        elif found.home:
            facts |= {"home": Words(found.home), "moved": True}
        return facts

    def value(self, spec: Key, raw: Any, path: Path) -> None:
        """Look at one value: what the trainer works with, and what it fails on."""
        name = dotted(path)
        base = spec.base
        if spec.optional and raw is None:
            return
        if base == "bool" and not isinstance(raw, bool):
            self.switch(raw, path)
        elif base in ("int", "float"):
            self.number(spec, raw, path)
        elif base.startswith("list") and not isinstance(raw, list):
            self.values[name] = raw
        elif base == "str" and not isinstance(raw, str):
            refused = name in ("model.hf_assets_path", "model.tokenizer_path")
            if refused and not isinstance(raw, (int, bool)):
                self.refuse("wrong-type", path, type=spec.kind)
        elif name == REDUCED and raw in DTYPES:
            pass  # a rule of its own says what follows
        elif spec.allowed and raw not in spec.allowed and name not in LATER:
            self.not_allowed_by(spec, path, raw, "not-listed")

    def switch(self, raw: Any, path: Path) -> None:
        """What is no switch is one by Python's rules: text is true unless empty."""
        self.values[dotted(path)] = bool(raw)
        if isinstance(raw, str) and raw and raw.strip().lower() not in TRUE_WORDS:
            self.fault("read-as-true", path, value=raw)

    def number(self, spec: Key, raw: Any, path: Path) -> None:
        """Numbers are compared, not converted."""
        name = dotted(path)
        if isinstance(raw, bool):
            self.fault("boolean-for-number", path, value=raw, result=int(raw))
            self.values[name] = raw = int(raw)
        if not isinstance(raw, (int, float)):
            used = name in COMPUTED or spec.min is not None
            kind = "wrong-type" if used else "not-converted"
            self.refuse(kind, path, type=spec.kind, **_number_meant(spec, raw))
        elif spec.min is not None and (raw < spec.min or (spec.nonzero and raw == 0)):
            self.refuse("value-out-of-range", path, bound=spec.bound, hint="")
        elif isinstance(raw, float) and not math.isfinite(raw):
            del self.values[name]

    def refuse(self, kind: str, path: Path, **facts: Any) -> None:
        """Note a fault of a value and forget the value."""
        name = dotted(path)
        raw = self.values.pop(name, None)
        self.fault(kind, path, value=raw, **facts)

    def one_of(self, name: str, allowed: Any, near: str = "") -> bool:
        """Whether a value is one of those allowed; if not, note it and forget it."""
        value = self.values.get(name, _NOTHING)
        if value is _NOTHING:
            return False
        if isinstance(value, str) and value in allowed:
            return True
        spec = self.spec(name)
        spec = spec._replace(allowed=list(allowed))
        hint = f'did you mean "{near}"?' if near else self.hints.for_value(spec, value)
        facts = {"allowed": list(allowed), "hint": hint}
        meant = value_meant(hint, value)
        if meant.get("sure") or name not in ("model.name", "model.flavor"):
            facts |= meant  # a name that is only near may be of another model
        self.refuse("value-not-allowed", tuple(name.split(".")), **facts)
        return False

    def spec(self, name: str) -> Key:
        """The schema's entry of a dotted key."""
        return dict(self.schema.dotted_keys())[name]

    def model(self) -> None:
        """The model and its flavor must be in the release's tables."""
        if self.values.get("experimental.custom_import"):
            self.values.pop("model.name", None)
            return
        if self.one_of("model.name", models.names(self.version)):
            known = models.flavors(self.version, self.values["model.name"])
            if known:
                self.one_of("model.flavor", known)

    def precision(self) -> None:
        """Converters must be names of this release; then their tables are read."""
        converters = self.values.get("model.converters")
        allowed = CONVERTERS.get(self.version, CONVERTERS[""])
        path: Path = ("model", "converters")
        if isinstance(converters, str) and converters:
            facts: dict[str, Any] = {"allowed": [[name] for name in allowed[:1]]}
            facts["hint"] = ""
            if converters in allowed:
                facts |= {"meant": [converters], "sure": True}
            self.refuse("value-not-allowed", path, **facts)
            return
        if not isinstance(converters, list):
            if converters is not None and not isinstance(converters, (str, dict)):
                self.refuse("wrong-type", path, type="an array")
            return
        for index, converter in enumerate(converters):
            if not isinstance(converter, str) or converter not in allowed:
                self.values.pop("model.converters", None)
                self.converter(converter, (*path, index), allowed)
                return
        if allowed[0] in converters:
            self.float8("float8" if self.version == LENIENT else allowed[0])

    def converter(self, name: Any, path: Path, allowed: tuple[str, ...]) -> None:
        """Note a converter that this release does not have."""
        parts = str(name).casefold().split(".")
        same = (one for one in allowed if one.split(".")[-1] == parts[-1])
        meant = next(same, "") if not {"grouped_mm", "moe"} & set(parts) else ""
        near = "" if meant or "moe" in parts else closest(str(name), allowed)
        near = meant or near
        hint = f'did you mean "{near}"?' if near else ""
        facts: dict[str, Any] = {"allowed": list(allowed), "hint": hint}
        facts |= value_meant(hint, name)
        value = name
        if meant in self.raw["model"]["converters"]:  # it would be there twice
            value, path = self.raw["model"]["converters"], path[:-1]
            facts |= {"meant": [one for one in value if one != name], "sure": True}
            facts["hint"] = f'"{meant}" is its name here, and is in the list already'
        elif meant:
            facts["sure"] = True
        self.fault("value-not-allowed", path, value=value, **facts)

    def float8(self, table: str) -> None:
        """What the converter of linears reads of its table."""
        if self.values.get(f"{table}.recipe_name") is not None:
            self.one_of(f"{table}.recipe_name", RECIPES)
        name = f"{table}.filter_fqns"
        filters = self.values.get(name)
        path = tuple(name.split("."))
        if isinstance(filters, str) and filters:
            self.fault("filter-is-text", path, value=filters)
        elif isinstance(filters, list):
            if any(not isinstance(one, str) for one in filters):
                self.refuse("wrong-type", path, type="an array of strings")
        elif filters is not None and not isinstance(filters, (str, dict)):
            self.refuse("wrong-type", path, type="an array of strings")

    def checkpointing(self) -> None:
        """The mode, and with selective AC its option, which must be text.

        Of the decoders; other models look at other keys.
        """
        if self.values.get("model.name") not in models.DECODERS:
            return
        mode, option = (
            "activation_checkpoint.mode",
            "activation_checkpoint.selective_ac_option",
        )
        modes = self.spec(mode).allowed
        if not self.one_of(mode, modes) or self.values[mode] != "selective":
            return
        value = self.values.get(option)
        if isinstance(value, str) and (value == "op" or value.isdigit()):
            return
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            facts = {
                "hint": f'did you mean "{value}"?',
                "meant": str(value),
                "sure": True,
            }
        else:
            facts = {"hint": 'did you mean "op"?', "meant": "op", "sure": False}
        facts["allowed"] = ["op", "1", "2"]
        self.refuse("value-not-allowed", tuple(option.split(".")), **facts)

    def sharding(self) -> None:
        """Names of dtypes and policies that a table of the trainer must have."""
        for name in ("training.dtype", "training.mixed_precision_param"):
            if name in self.values:
                self.one_of(name, DTYPES)
        name = "parallelism.context_parallel_load_balancer"
        if self.values.get(name) == "":
            self.one_of(name, ("headtail", "ptrr"))
        components = self.values.get("compile.components")
        if self.values.get("compile.enable") and isinstance(components, (int, float)):
            self.refuse("wrong-type", ("compile", "components"), type="an array")


REDUCED = "training.mixed_precision_reduce"
"""Key of which the trainer takes more values than its class lists."""

LATER = frozenset(
    (
        "activation_checkpoint.mode",
        "training.dtype",
        "training.mixed_precision_param",
        "parallelism.fsdp_reshard_after_forward",
        "quantize.linear.float8.recipe_name",
        "float8.recipe_name",
    )
)
"""Keys with a list of values that are looked at where they are used."""


def _number_meant(spec: Key, raw: Any) -> dict[str, Any]:
    """The number that a text says, if it says one."""
    if not isinstance(raw, str):
        return {}
    try:
        number = int(raw) if spec.base == "int" else float(raw)
    except ValueError:
        return {}
    odd = isinstance(number, float) and not math.isfinite(number)
    return {} if odd else {"meant": number}


def _modules(raw: dict[str, Any]) -> Iterator[str]:
    """The modules that a file names, which may add keys to the config."""
    for table, key in (
        ("job", "custom_config_module"),
        ("experimental", "custom_args_module"),
    ):
        value = raw.get(table)
        if isinstance(value, dict) and isinstance(value.get(key), str) and value[key]:
            yield value[key]
