"""The ``[[fix]]`` entries of a rule, compiled."""

# no future annotations: as strings, they double the import time of a NamedTuple
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fp8tune.conditions.expression import Expression
from fp8tune.formats.document import Path
from fp8tune.lint.wording import Template, compile_template

VERBS = ("set", "rename", "move", "header")


class Repair(NamedTuple):
    """One ``[[fix]]`` of a rule, compiled.

    ``set``, ``rename``, ``move`` and ``header`` map a key, a job's field or ``fault``
    to its new value, its new name, its new place (``section.key``), and the section
    that belongs above it.
    """

    when: Expression | None
    safety: str
    title: Template
    changes: Template
    set: dict[str, Expression]
    rename: dict[str, Expression]
    move: dict[str, Expression]
    header: dict[str, Expression]
    remove: list[str]

    @property
    def own(self) -> bool:
        """Whether the edits are those of the fault itself."""
        return not (self.set or self.rename or self.move or self.header or self.remove)


def compile_repair(
    entry: dict[str, Any], compile_one: Callable[[str], Expression]
) -> Repair:
    """Compile one ``[[fix]]``, or a part of one; raises ``ExpressionError``."""

    def compiled(verb: str) -> dict[str, Expression]:
        return {name: compile_one(text) for name, text in entry.get(verb, {}).items()}

    return Repair(
        compile_one(entry["when"]) if "when" in entry else None,
        entry.get("safety", "unsafe"),
        compile_template(entry.get("title", ""), compile_one),
        compile_template(entry.get("changes", ""), compile_one),
        compiled("set"),
        compiled("rename"),
        compiled("move"),
        compiled("header"),
        entry.get("remove", []),
    )


def parts(entry: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the parts of a ``[[fix]]`` that contain expressions, one by one."""
    for field in ("when", "title", "changes"):
        if field in entry:
            yield (field,), {field: entry[field]}
    for verb in VERBS:
        for name, source in entry.get(verb, {}).items():
            yield (verb, name), {verb: {name: source}}
