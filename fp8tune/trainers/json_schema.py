"""A trainer's config as a JSON Schema, for the completion and checks of editors.

Names, types, defaults and enumerations come from the trainer's schema. What it does
with an odd value is asked of its loader: numbers written as text are part of the schema
where the loader converts them, and unknown keys where it lets them pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.trainers.schema import Key, Schema, Variants
from fp8tune.trainers.trainer import Trainer

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest version of JSON Schema that the common TOML servers all read."""

Node = dict[str, Any]
"""A schema, or a part of one."""

_NAMES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
_STRANGE = "no-such-key"
"""A key that no trainer has."""

_DIGITS = "[0-9]+(?:_[0-9]+)*"
_TEXTS = {
    "int": rf"\s*[-+]?{_DIGITS}\s*",
    "float": rf"\s*[-+]?(?:(?:{_DIGITS}\.?|(?:{_DIGITS})?\.{_DIGITS})"
    rf"(?:[eE][-+]?{_DIGITS})?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])\s*",
}
"""Numbers in the form in which Python reads them from text."""

_SWITCHES = (
    *("true", "false", "yes", "no", "on", "off", "1", "0"),
    *("enabled", "disabled", "none", "y", "n", "t", "f", ""),
)
"""Words that a loader may take for true or false."""

_TRIED = (1, 2, 0, 0.5, 16, 1024, -1)
"""Numbers of which one is within the bounds of any key."""


def json_schema(trainer: Trainer) -> Node:
    """Return the JSON Schema of a trainer's config."""
    schema = trainer.schema
    tables = _Tables(trainer)
    parts = {name: tables.of_section(name) for name in schema.sections} | {
        name: tables.of_key(key, (name,)) for name, key in schema.top_keys.items()
    }
    head = {
        "$schema": DRAFT,
        "title": f"{schema.title} config",
        "description": f"By {schema.source}",
    }
    return head | tables.closed(parts)


class _Tables:
    """The tables of one trainer's config as JSON Schemas."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.schema: Schema = trainer.schema
        self.classes = trainer.schema.classes
        self.openers = list(self._openers()) if self.refuses_unknown(()) else []

    def faults(
        self, path: Path, value: Any, beside: dict[str, Any] | None = None
    ) -> list[str]:
        """The kinds of faults of a key in a config that sets nothing else.

        ``beside`` are other keys of its table. What depends on several keys is no
        fault of one.
        """
        raw: Any = {path[-1]: value, **(beside or {})}
        for part in reversed(path[:-1]):
            raw = [raw] if isinstance(part, int) else {part: raw}
        found = (f for f in self.trainer.load(raw).faults if f.path == path)
        return [f.kind for f in found if f.kind != "refused-settings"]

    def refuses_unknown(self, path: Path) -> bool:
        """Whether a table refuses a key that it does not know."""
        return "unknown-key" in self.faults((*path, _STRANGE), {})

    def _openers(self) -> Iterator[tuple[str, str]]:
        """The keys that add keys to the config, as a module of the user's own does."""
        for name in self.schema.sections:
            for key, spec in self.classes[self.schema.section_class(name)].items():
                if spec.base == "str" and not spec.allowed:
                    raw = {name: {key: _STRANGE}, _STRANGE: {}}
                    kinds = [fault.kind for fault in self.trainer.load(raw).faults]
                    if "unknown-key" not in kinds:
                        yield name, key

    def of_section(self, name: str) -> Node:
        """Return a top-level table; ``root`` may have its key."""
        root = self.classes.get(self.schema.root, {})
        if name in root:
            return self.of_key(root[name], (name,))
        return self.of_class(self.schema.section_class(name), (name,))

    def closed(self, parts: Node) -> Node:
        """Return the whole config, without unknown keys where they are refused.

        Where a key may add others, they are refused only if it is not set.
        """
        root = _table(parts, closed=self.refuses_unknown(())) | self.of_fork(())
        if not self.openers:
            return root
        names = _only_names(root)
        opened = [
            _with({section: _with({key: {"minLength": 1}})})
            for section, key in self.openers
        ]
        return {**_opened(root), "if": {"anyOf": opened}, "else": names}

    def of_fork(self, path: Path) -> Node:
        """Return what lets the keys of a fork stand in a table."""
        place = "".join(f"{part}." for part in path)
        names = (
            name.removeprefix(place)
            for name in self.trainer.extra_keys
            if name.startswith(place)
        )
        words = (
            re.escape(name).replace(r"\*", ".*") for name in names if "." not in name
        )
        patterns: Node = {f"^{word}$": {} for word in words}
        return {"patternProperties": patterns} if patterns else {}

    def of_class(self, name: str, path: Path) -> Node:
        """Return the table of a class at a place."""
        keys = self.classes[name]
        variants = self.schema.variants.get(name)
        parts = {key: self.of_key(keys[key], (*path, key)) for key in keys}
        for variant in variants.classes.values() if variants else ():
            for key, spec in self.classes[variant].items():
                if not variants or key != variants.key:
                    node = self.of_key(spec, (*path, key))
                    parts[key] = _either(parts.get(key, node), node)
        table = _table(parts, closed=self.refuses_unknown(path)) | self.of_fork(path)
        required = [*self.schema.required[name]]
        rules = [*self._conditions(keys)]
        if variants:
            rules += self._variants(variants, path)
        if required:
            table["required"] = required
        return table | ({"allOf": rules} if rules else {})

    def _conditions(self, keys: dict[str, Key]) -> Iterator[Node]:
        """Yield the bounds that hold only where another key is above 0."""
        for switch in dict.fromkeys(spec.only_if for spec in keys.values()):
            if switch:
                bounds = {
                    name: _bounds(spec) or {"enum": spec.allowed}
                    for name, spec in keys.items()
                    if spec.only_if == switch
                }
                on = {switch: {"type": "integer", "exclusiveMinimum": 0}}
                absent = keys[switch].default <= 0
                yield {"if": _with(on, required=absent), "then": _with(bounds, False)}

    def _variants(self, variants: Variants, path: Path) -> Iterator[Node]:
        """Yield which keys of other variants one refuses; also where none is chosen."""
        every = {
            key for name in variants.classes.values() for key in self.classes[name]
        }
        chosen: dict[str | None, Node] = {
            value: _with({variants.key: {"const": value}}) for value in variants.classes
        }
        absent = {"not": _with({variants.key: {}}), "additionalProperties": True}
        for value, condition in (chosen | {None: absent}).items():
            beside = {} if value is None else {variants.key: value}
            refused = {
                key: False
                for key in sorted(every)
                if "unknown-key" in self.faults((*path, key), 1, beside)
            }
            if refused:
                yield {"if": condition, "then": _with(refused, required=False)}

    def of_key(self, spec: Key, path: Path) -> Node:
        """Return a key: its type, and what is known of its values."""
        kinds = [kind for kind in _split(spec.base, "|") if kind != "Literal"]
        base = " | ".join(kinds) or spec.base
        node = self.of_type(base, path)
        others = [value for value in spec.allowed if not self._is_of(spec.base, value)]
        if spec.allowed and not others:
            node |= {} if spec.only_if else {"enum": spec.allowed}
        elif base in ("int", "float", "bool"):
            node |= self._other_forms(base, path)
        if not spec.only_if:
            _bound(node, spec)
        none, strange = (self.faults(path, text) for text in ("None", _STRANGE))
        if spec.optional and strange and not none:
            others.append("None")
        if others:
            node = {"anyOf": [node, {"enum": others}]}
        default = spec.effective_default
        if default is not None and _finite(default):
            node["default"] = default
        said = {"description": spec.doc} if spec.doc else {}
        if spec.deprecated:
            node["deprecated"] = True
        return said | node

    def _is_of(self, base: str, value: Any) -> bool:
        """Whether an allowed value is of its key's type, not one beside it."""
        if base in self.classes or "[" in base or "|" in base:
            return False
        kinds = {"int": (int,), "float": (int, float), "bool": (bool,)}
        return isinstance(value, kinds.get(base, (str,)))

    def of_type(self, base: str, path: Path) -> Node:
        """Return a type as it is declared: ``list[dict[str, int]] | str``."""
        parts = _split(base, "|")
        if len(parts) > 1:
            return {"anyOf": [self.of_type(part, path) for part in parts]}
        if base in _NAMES:
            return {"type": _NAMES[base]}
        if base in self.classes:
            return self.of_class(base, path)
        kind, _, inner = base.partition("[")
        elements = _split(inner.removesuffix("]"), ",")
        if kind == "dict":
            node = self.of_type(elements[-1], (*path, _STRANGE))
            return {"type": "object", "additionalProperties": node}
        if kind not in ("list", "tuple"):
            return {"additionalProperties": True} if base == "Any" else {}
        node = {"type": "array"}
        if elements[0]:
            node["items"] = self.of_type(elements[0], (*path, 0))
        if kind == "tuple" and elements[-1] != "...":
            node |= {"minItems": len(elements), "maxItems": len(elements)}
        return node

    def _other_forms(self, base: str, path: Path) -> Node:
        """Return the other types of a number or switch that the loader converts."""
        types, forms = [_NAMES[base]], {}
        if base == "bool":
            usual = {*self.faults(path, True), *self.faults(path, False)}

            def taken(value: Any) -> bool:
                return usual.issuperset(self.faults(path, value))

            if taken(1):
                types.append("integer")
                forms = {} if taken(8) else {"minimum": 0, "maximum": 1}
            every = taken("true") or taken("false")
            words = [w for word in _SWITCHES for w in _spellings(word) if every]
            text = "|".join(re.escape(word) for word in words if taken(word))
        else:
            number = next((n for n in _TRIED if not self.faults(path, n)), 1)
            if base == "int" and not self.faults(path, float(number)):
                types.append("number")
                forms["multipleOf"] = 1
            text = "" if self.faults(path, str(number)) else _TEXTS[base]
        if not text:
            return forms | {"type": types if len(types) > 1 else types[0]}
        return forms | {"type": [*types, "string"], "pattern": f"^(?:{text})$"}


def _table(keys: Node, *, closed: bool) -> Node:
    return {"type": "object", "properties": keys, "additionalProperties": not closed}


def _with(keys: Node, required: bool = True) -> Node:
    """Return what a table must have, whatever else it has."""
    node: Node = {"properties": keys, "additionalProperties": True}
    return node | ({"required": [*keys]} if required else {})


def _opened(node: Any) -> Any:
    """Return a schema whose tables may have other keys too."""
    if isinstance(node, list):
        return [_opened(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: True
        if key == "additionalProperties" and value is False
        else _opened(value)
        for key, value in node.items()
    }


def _only_names(table: Node) -> Node:
    """Return the tables of a schema with their keys' names alone."""
    keys = {
        name: _only_names(spec) if "properties" in spec else {}
        for name, spec in table["properties"].items()
    }
    kept = ("additionalProperties", "patternProperties")
    return {"properties": keys} | {name: table[name] for name in kept if name in table}


def _bounds(spec: Key) -> Node:
    """Return the range of a number."""
    node: Node = {}
    if spec.within:
        low, high = (float(edge) for edge in spec.within[1:-1].split(","))
        closed, ends = spec.within[0] == "[", spec.within[-1] == "]"
        node["minimum" if closed else "exclusiveMinimum"] = low
        node["maximum" if ends else "exclusiveMaximum"] = high
    if spec.above is not None:
        node["exclusiveMinimum"] = spec.above
    if spec.min is not None:
        node["minimum"] = spec.min
    if spec.nonzero:
        node["not"] = {"const": 0}
    return node


def _bound(node: Node, spec: Key) -> None:
    """Add the range of a number, or of the numbers in an array or a table."""
    if node.get("type") == "array":
        node["items"] = node.get("items", {}) | _bounds(spec)
    elif node.get("type") == "object" and "properties" not in node:
        node["additionalProperties"] |= _bounds(spec)
    else:
        node |= _bounds(spec)


def _either(one: Node, other: Node) -> Node:
    """Return a key that two variants have, in the first's words.

    Without a default if theirs differ.
    """
    said = {key: one[key] for key in ("description", "default") if key in one}
    if one.get("default") != other.get("default"):
        said.pop("default", None)
    bare = [
        {key: node[key] for key in node if key not in ("description", "default")}
        for node in (one, other)
    ]
    return said | (bare[0] if bare[0] == bare[1] else {"anyOf": bare})


def _finite(value: Any) -> bool:
    """Whether JSON has a value: it has no infinite numbers."""
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _spellings(word: str) -> list[str]:
    return list(dict.fromkeys((word, word.capitalize(), word.upper())))


def _split(text: str, mark: str) -> list[str]:
    """Return the parts of a type at a mark, but not within brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == mark and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
