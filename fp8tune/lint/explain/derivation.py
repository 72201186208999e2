"""Derive a value: from which lines of the config, by which formulas."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.facts.gaps import reason
from fp8tune.job import Source, Unknown
from fp8tune.lint.explain.formula import unknown_if, working

SUPPLY = {
    "gpu": "add --gpu h100, or `# fp8tune: gpu=h100` at the top of the file",
    "world_size": "add --world-size 16, or `# fp8tune: world-size=16` at the top of "
    "the file",
    "gpus_per_node": "add --gpus-per-node 4, or `# fp8tune: gpus-per-node=4` at the "
    "top of the file",
}
"""What a user types to make a fact known."""

SEEN = "see above"
"""Origin of a value that was derived before."""

DEPTH = 32
"""Levels of inputs that are followed at most."""

BRIEF = 2
"""Levels of inputs that a brief derivation has."""

_UNIT = re.compile(r"\[([A-Za-z/% ]+)\]")


class Node(NamedTuple):
    """One value and its inputs.

    ``origin`` says where the value was set, or why it is not known; ``working`` is the
    formula with this config's numbers.
    """

    name: str
    value: Any
    known: bool
    unit: str
    origin: str
    working: str = ""
    inputs: tuple[Node, ...] = ()


def unit(prose: str) -> str:
    """Return the unit in brackets of a description, such as ``GiB``, or ``""``."""
    match = _UNIT.search(" ".join(prose.split("\n\n")[0].split()))
    return match[1] if match else ""


def derive(name: str, config: Config, depth: int = DEPTH) -> Node:
    """Return the value of a key, field or fact in a config, with its derivation.

    Inputs are followed ``depth`` levels down, each of them once.
    """
    return _Derivation(config).node(name, depth)


def brief(name: str, config: Config) -> Node:
    """Return a short derivation: two levels of inputs, without those that are zero."""
    return _without_zeros(derive(name, config, BRIEF))


def is_cut(node: Node) -> bool:
    """Return whether a brief derivation leaves out inputs of a value."""
    leaf = not (node.inputs or node.origin or node.working)
    return leaf or any(map(is_cut, node.inputs))


def _without_zeros(node: Node) -> Node:
    kept = (each for each in node.inputs if not (_is_zero(each) or _is_opaque(each)))
    inputs = tuple(map(_without_zeros, kept))
    return node._replace(inputs=inputs)


def _is_zero(node: Node) -> bool:
    """Return whether a value is 0, or a table or list without another number."""
    value = node.value
    if isinstance(value, (dict, list)):
        return node.known and not node.inputs and not value
    return node.known and type(value) in (int, float) and value == 0


def _is_opaque(node: Node) -> bool:
    """Return whether a value tells nothing: an empty word, or a table of tables."""
    if not node.known or node.inputs:
        return False
    return node.value == "" or is_nested(node.value)


def is_nested(value: Any) -> bool:
    """Return whether a value is a table or list of rows that are not flat."""
    if not isinstance(value, (dict, list, tuple)):
        return False
    each = value.values() if isinstance(value, dict) else value
    return any(
        isinstance(part, (dict, list, tuple))
        for row in each
        if isinstance(row, (dict, list, tuple))
        for part in (row.values() if isinstance(row, dict) else row)
    )


class _Derivation:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.words = config.job.words
        self.units = {n: unit(k.doc) for n, k in config.trainer.schema.dotted_keys()}
        self.seen: set[str] = set()

    def node(self, name: str, depth: int) -> Node:
        words = self.words
        if name in words.renamed:
            key = words.renamed[name]
            return self.leaf(name, key)._replace(origin=f"{key}, {self.origin(key)}")
        if name in words.computed:
            return self.computed(name, words.computed[name], depth)
        name = words.spelled.get(name, name)
        if name in words.computed:
            return self.computed(name, words.computed[name], depth)
        return self.leaf(name, name)

    def leaf(self, name: str, key: str) -> Node:
        value, known = self.value(name)
        return Node(name, value, known, self.units.get(key, ""), self.origin(key))

    def value(self, name: str) -> tuple[Any, bool]:
        try:
            return self.config.job[name], True
        except Unknown:
            return None, False

    def origin(self, key: str) -> str:
        """Return where a key or a part of the target is set."""
        job, target = self.config.job, self.config.job.target
        if key in SUPPLY:
            said = {
                "gpu": target.gpu_origin,
                "world_size": target.world_size_origin,
                "gpus_per_node": "said" if target.gpus_per_node else "",
            }
            return said[key] or SUPPLY[key]
        section = key.partition(".")[0]
        if key in job.written:
            argument = self.config.loaded.argument(tuple(key.split(".")))
            place = argument.text if argument else f"line {self.config.line(key)}"
            refused = "" if self.value(key)[1] else ", where its value is refused"
            return f"{place}{refused}"
        if self.value(key)[1]:
            return "default" if "." in key else f"there is no [{section}]"
        return f"there is no [{section}]" if section not in job.written else "not set"

    def computed(self, name: str, source: Source, depth: int) -> Node:
        value, known = self.value(name)
        doc = unit(inspect.getdoc(source.call) or "")
        node = Node(name, value, known, doc, "")
        if name in self.seen:
            return node._replace(origin=SEEN if depth else "")
        if depth == 0:
            return node._replace(origin="" if known else self.reason(name, source))
        self.seen.add(name)
        inputs = tuple(self.inputs(source, depth - 1, all_of_them=not known))
        if not known:
            return node._replace(origin=self.reason(name, source), inputs=inputs)
        told = working(source.call, self.arguments(source))
        return node._replace(working=told, inputs=inputs)

    def inputs(
        self, source: Source, depth: int, *, all_of_them: bool
    ) -> Iterator[Node]:
        """Yield the inputs; for a known result only those that it used.

        Inputs that a user can supply are kept, because the result may change with them.
        """
        for name in source.parameters:
            seen = set(self.seen)
            node = self.node(name, depth)
            can_be_said = any(leaf.name in SUPPLY for leaf in missing(node))
            if node.known or all_of_them or can_be_said:
                yield node
            else:
                self.seen = seen

    def arguments(self, source: Source) -> dict[str, Any]:
        values = {name: self.value(name) for name in source.parameters}
        return {name: value for name, (value, known) in values.items() if known}

    def reason(self, name: str, source: Source) -> str:
        """Return why a function has no value: a missing input, or its own reason."""
        arguments = self.arguments(source)
        lacks = [name for name in source.parameters if name not in arguments]
        required = [name for name in lacks if name not in source.optional]
        spelled = self.words.spelled
        told = "" if required else unknown_if(source.call, arguments, spelled)
        if told:
            return self.gap(name) or f"unknown if {told}"
        if lacks:
            wanted = (required or lacks)[0]
            return f"needs {spelled.get(wanted, wanted)}"
        return self.gap(name) or "unknown for these values"

    def gap(self, name: str) -> str:
        """Return the gap in the estimates that makes a value unknown, or ``""``."""
        try:
            self.config.job[name]
        except Unknown as missing:
            config, advice = self.config, self.config.trainer.about.advice
            return reason(str(missing.args[0]), config.job.target.gpu, advice)
        return ""


def missing(node: Node) -> list[Node]:
    """Return the leaves of a derivation that are unknown, each once."""
    found: dict[str, Node] = {}

    def collect(part: Node) -> None:
        if not part.known and not part.inputs:
            found.setdefault(part.name, part)
        for each in part.inputs:
            collect(each)

    collect(node)
    return list(found.values())
