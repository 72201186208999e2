"""The keys of a trainer's config, read from the schema of its version."""

# no future annotations: as text, those of a NamedTuple double what it costs to import
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from fp8tune.conditions import KNOWN
from fp8tune.trainers.about import BOUNDS, is_of, module_of, read_toml, release_of

_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "list": (list,),
    "tuple": (list,),
}
"""What TOML's values are in Python, by the type of a key; other keys hold tables."""
IN_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a string",
    "list": "an array",
    "tuple": "an array",
}
"""How messages call them."""


class Key(NamedTuple):
    """One key of a config class; the fields are explained in ``schema.toml``.

    ``base`` is the type without ``| None``, ``checked`` says whether the trainer
    checks the value after coercing it.
    """

    type: str
    base: str
    checked: bool
    default: Any = None
    required: bool = False
    allowed: list[Any] = []
    above: float | None = None
    min: float | None = None
    within: str = ""
    nonzero: bool = False
    compared: bool = False
    only_if: str = ""
    overlay: Any = None
    near: dict[str, list[str]] = {}
    aka: list[str] = []
    doc: str = ""
    deprecated: bool = False

    @property
    def optional(self) -> bool:
        """Whether ``None`` is a value of its own, which no check refuses."""
        return self.type.endswith("| None")

    @property
    def bound(self) -> str:
        """The range of the value in words, ``""`` without one."""
        if self.within:
            low, high = (edge.strip() for edge in self.within[1:-1].split(","))
            start = "at least" if self.within[0] == "[" else "above"
            end = "at most" if self.within[-1] == "]" else "below"
            return f"{start} {low} and {end} {high}"
        if self.nonzero:
            return f"{self.min} or above 0"
        if self.above is not None:
            return f"above {self.above}"
        return "" if self.min is None else f"at least {self.min}"

    def contains(self, value: Any) -> bool:
        """Whether a number is inside the bounds; nan never is."""
        if self.within:
            low, high = (float(edge) for edge in self.within[1:-1].split(","))
            above = value >= low if self.within[0] == "[" else value > low
            return bool(
                above and (value <= high if self.within[-1] == "]" else value < high)
            )
        if self.above is not None:
            return bool(value > self.above)
        return self.min is None or bool(value >= self.min)

    @property
    def kind(self) -> str:
        """What its value is, in words: ``a whole number``."""
        return IN_WORDS.get(self.base.partition("[")[0], "a table")

    def takes(self, value: Any) -> bool:
        """Whether a TOML value is of the key's own type, and one of those allowed."""
        if self.allowed or self.base == "Any":
            return not self.allowed or value in self.allowed
        kinds = _KINDS.get(self.base.partition("[")[0], (dict,))
        return isinstance(value, kinds) and (bool in kinds) >= isinstance(value, bool)

    @property
    def effective_default(self) -> Any:
        """The value that the trainer works with when the key is absent."""
        return self.default if self.overlay is None else self.overlay


_CHECKS = frozenset({"above", "min", "within", "compared"})


def _key(spec: dict[str, Any]) -> Key:
    base = spec["type"].removesuffix(" | None")
    checked = bool(_CHECKS & spec.keys()) or (base == "str" and "allowed" in spec)
    return Key(base=base, checked=checked, **spec)


class Variants(NamedTuple):
    """A config class that is chosen by the value of one of its keys."""

    key: str
    default: str
    classes: dict[str, str]


class Schema(NamedTuple):
    """Everything that a trainer's config may say.

    ``root`` is the class of the whole file, where keys stand above all tables.
    """

    title: str
    source: str
    sections: dict[str, str]
    variants: dict[str, Variants]
    classes: dict[str, dict[str, Key]]
    required: dict[str, tuple[str, ...]]
    job: dict[str, str]
    version: str = ""
    root: str = ""
    unknown_keys: str = "refused"
    quoted_values: str = "refused"
    checks: dict[str, Any] = {}

    @property
    def top_keys(self) -> dict[str, Key]:
        """The keys above all tables."""
        keys = self.classes.get(self.root, {})
        return {name: key for name, key in keys.items() if name not in self.sections}

    def section_class(self, section: str) -> str:
        """The class of a top-level section, without ``| None``."""
        return self.sections[section].removesuffix(" | None")

    def optional(self, section: str) -> bool:
        """Whether an absent section stays absent instead of taking defaults."""
        return self.sections[section].endswith(" | None")

    def dotted_keys(self) -> Iterator[tuple[str, Key]]:
        """Every dotted key outside of lists, variants included."""
        yield from self.top_keys.items()
        for section in self.sections:
            yield from self._class_keys(section, self.section_class(section))

    def entry_keys(self) -> Iterator[tuple[str, Key]]:
        """The keys of tables in lists, as ``data.datasets[].path``."""
        for name, key in self.dotted_keys():
            yield from self._entry_keys(name, key)

    def _entry_keys(self, name: str, key: Key) -> Iterator[tuple[str, Key]]:
        element = key.base.partition("[")[2].rstrip("]").split(",")[0]
        for inner, spec in self.classes.get(element, {}).items():
            yield f"{name}[].{inner}", spec
            yield from self._entry_keys(f"{name}[].{inner}", spec)

    def _class_keys(self, prefix: str, name: str) -> Iterator[tuple[str, Key]]:
        base = self.classes[name]
        found = list(base.items())
        if name in self.variants:
            for variant in self.variants[name].classes.values():
                keys = self.classes[variant].items()
                found += [(key, spec) for key, spec in keys if key not in base]
        for key, spec in found:
            yield f"{prefix}.{key}", spec
            if spec.base in self.classes:
                yield from self._class_keys(f"{prefix}.{key}", spec.base)


def parsed(trainer: str) -> dict[str, Any]:
    """What the schema of a trainer says of one version: ``torchtitan==0.2.2``."""
    name, _, version = trainer.partition("==")
    data = of_release(read_toml(name, "schema.toml"), version)
    with suppress(FileNotFoundError):
        checks = read_toml(name, "checks.toml")
        mine = [each for each in checks["check"] if is_of(each, version)]
        data["checks"] = checks | {"check": mine}
    return data


def of_release(data: dict[str, Any], version: str) -> dict[str, Any]:
    """Return what a schema file says of one version, ``0.2.2`` or ``0.8.1.sft``.

    Where versions differ, an entry is a table with the releases ``since`` and ``until``
    which it is so (both included), and the commands ``of`` whose files it is in; or a
    list of such tables. ``value`` is that of an entry which is no table. A command has
    only the classes that its keys reach.
    """
    if not version:
        return data
    release, command = release_of(version)

    def table(entries: dict[str, Any]) -> dict[str, Any]:
        chosen = {}
        for name, entry in entries.items():
            for each in entry if isinstance(entry, list) else [entry]:
                if not (isinstance(each, dict) and BOUNDS & each.keys()):
                    chosen[name] = each
                elif is_of(each, version):
                    rest = {k: v for k, v in each.items() if k not in BOUNDS}
                    chosen[name] = rest.get("value", rest)
        return chosen

    head = table({name: data[name] for name in FIXED if name in data})
    for name in ("title", "source"):
        head[name] = head[name].replace("{release}", release)
    said = head | {name: table(data[name]) for name in ("sections", "job", "variants")}
    tables = {name: (table(keys), keys) for name, keys in data["classes"].items()}
    classes = {name: keys for name, (keys, all_) in tables.items() if keys or not all_}
    return said | {"classes": _reached(said, classes) if command else classes}


def _reached(
    said: dict[str, Any], classes: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the classes that the root, the sections and their keys name."""
    left = [said.get("root", ""), *said["sections"].values()]
    names: set[str] = set()
    while left:
        for name in re.findall(r"\w+", left.pop()):
            if name in classes and name not in names:
                names.add(name)
                left += [key["type"] for key in classes[name].values()]
                left += said["variants"].get(name, {}).get("classes", {}).values()
    return {name: keys for name, keys in classes.items() if name in names}


def read(trainer: str) -> Schema:
    """The schema of a trainer's version."""
    try:
        module = import_module(module_of(trainer))
    except ImportError:  # in a checkout
        data = parsed(trainer)
    else:
        data = module.SCHEMA
        KNOWN.update(module.TREES)
    return schema_of(data, trainer.partition("==")[2])


def schema_of(data: dict[str, Any], version: str = "") -> Schema:
    """The schema that the values of its file say."""
    classes = {
        name: {key: _key(spec) for key, spec in keys.items()}
        for name, keys in data["classes"].items()
    }
    variants = {name: Variants(**spec) for name, spec in data["variants"].items()}
    for base, spec in variants.items():
        for name in spec.classes.values():
            classes[name] = classes[base] | classes[name]
    required = {
        name: tuple(key for key, spec in keys.items() if spec.required)
        for name, keys in classes.items()
    }
    head = data["title"], data["source"], data["sections"]
    said = {name: data[name] for name in OPTIONAL if name in data}
    return Schema(*head, variants, classes, required, data["job"], version, **said)


FIXED = ("title", "source", "root", "unknown_keys", "quoted_values")
"""Entries of a schema above its tables."""
OPTIONAL = ("root", "unknown_keys", "quoted_values", "checks")
"""Fields of a schema that few have; ``checks`` are those of ``checks.toml``.

A trainer without a loader of its own refuses or ignores ``unknown_keys``, and refuses
or converts ``quoted_values``: numbers and switches that are written as text.
"""


def since(schema: Schema, *release: int) -> bool:
    """Return whether the schema is of that release or a later one."""
    return tuple(map(int, schema.version.split("."))) >= release
