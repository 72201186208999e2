"""The scope of a rule's expressions: the job, and the facts of one fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fp8tune.conditions.expression import defined
from fp8tune.job import Job, Prose, Words
from fp8tune.trainers.faults import Fault
from fp8tune.words import shown


class Scope:
    """A job plus the facts of one fault, for a rule's message."""

    def __init__(self, job: Job, facts: dict[str, Any]) -> None:
        self.job = job
        self.facts = {f"fault.{name}": value for name, value in facts.items()}

    def __getitem__(self, name: str) -> Any:
        return self.facts[name] if name in self.facts else self.job[name]


PROSE = frozenset(
    ("key", "name", "names", "table", "section", "type", "bound", "reason", "hint")
)
"""Facts of faults that are words of ours or names, not values of the config."""


def of_fault(job: Job, fault: Fault) -> Scope:
    """Return the scope of a rule on a fault; fp8tune's own words get no quotes."""
    facts = {
        name: _prose(value) if name in PROSE else value
        for name, value in fault.facts.items()
    }
    return Scope(job, facts)


def _prose(value: Any) -> Any:
    if isinstance(value, list):
        return Words(", ".join(map(str, value[:12])))
    plain = isinstance(value, str) and not isinstance(value, Words)
    return Words(value) if plain else value


def _job(scope: Any) -> Job:
    job: Job = scope.job if isinstance(scope, Scope) else scope
    return job


def _setting(scope: Any, name: str) -> Prose:
    """Return a field and its value as the user can find it in the config.

    As the key that says it by itself (``train.batch = 8``). Else by its own name, with
    the keys that it follows from, those in the file if there are any.
    """
    job, value = _job(scope), scope[name]
    key = job.key(name)
    if key in job.words.keys and job.find(key) == value:
        return Prose(f"`{key} = {shown(value)}`")
    keys = [each for each in job.keys_of(name) if each in job.words.keys]
    keys = [each for each in keys if each in job.written] or keys[:1]
    origin = f" (from {', '.join(f'`{each}`' for each in keys[:4])})" if keys else ""
    return Prose(f"`{name} = {shown(value)}`{origin}")


ON_SCOPE: dict[str, Callable[[Any, str], Any]] = {
    "defined": defined,
    "written": lambda scope, name: _job(scope).writes(name),
    "key": lambda scope, name: Words(_job(scope).key(name)),
    "setting": _setting,
}
"""Functions of a name: is it known, is it in the file, its key, its key and value."""
