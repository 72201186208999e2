"""What a rule says of its fixes, one ``[[fix]]`` each; and what is wrong with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.fields import FIELDS
from fp8tune.job import Target
from fp8tune.lint.expression import Expression
from fp8tune.lint.wording import Template, compile_template
from fp8tune.suggest import closest
from fp8tune.toml import Path
from fp8tune.trainers import faults
from fp8tune.trainers.trainer import trainer

if TYPE_CHECKING:
    from fp8tune.lint.rules import Rule

SAFETIES = ("safe", "unsafe")
VERBS = ("set", "rename", "move", "header")


class Repair(NamedTuple):
    """What mends a finding: one ``[[fix]]`` of a rule, compiled.

    The verbs map a key, a job's field or ``fault`` to its new value, its new name,
    its new place (``section.key``), and the section that belongs above it.
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
        """Whether the edits are those that the fault brings along."""
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
    """The parts of a ``[[fix]]`` that hold expressions, each by itself."""
    for field in ("when", "title", "changes"):
        if field in entry:
            yield (field,), {field: entry[field]}
    for verb in VERBS:
        for name, source in entry.get(verb, {}).items():
            yield (verb, name), {verb: {name: source}}


def mistakes(rule: Rule, entry: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """What is wrong with a ``[[fix]]`` beside its expressions, and where in it."""
    if entry["safety"] not in SAFETIES:
        near = meant(closest(entry["safety"], SAFETIES))
        yield ("safety",), f"safety is safe or unsafe{near}"
    if not entry["title"].strip():
        yield ("title",), "title is empty"
    if entry["safety"] == "unsafe" and not entry.get("changes", "").strip():
        yield (), "an unsafe fix says in `changes` what becomes of the run"
    named = [(verb, name) for verb in VERBS for name in entry.get(verb, {})]
    removed = list(enumerate(entry.get("remove", ())))
    if not named and not removed and rule.fault not in faults.MENDED:
        yield (), "a fix has `set`, `rename`, `move`, `header` or `remove`"
    for verb, name in named:
        if wrong := _wrong(rule, name):
            yield (verb, name), wrong
    for number, name in removed:
        if wrong := _wrong(rule, name):
            yield ("remove", number), wrong


def _wrong(rule: Rule, name: str) -> str:
    """Why a fix cannot write what ``name`` means."""
    if name == "fault":
        return "" if rule.fault else "only a rule with `fault` speaks of one"
    keys = trainer(rule.trainer).vocabulary.keys if rule.trainer else frozenset()
    if name in keys or (name in FIELDS and name not in Target._fields):
        return ""
    if rule.knows(name):
        return f"no key says `{name}`; name the keys that it follows from"
    return f"unknown name `{name}`{meant(closest(name, (*FIELDS, *keys)))}"


def meant(near: str) -> str:
    """A question about a name, if there is one."""
    return f"; did you mean `{near}`?" if near else ""
