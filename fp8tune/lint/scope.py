"""What the expressions of a rule see: the job, and the facts of one fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fp8tune.job import Job, Unknown, Words


class Scope:
    """A job with the facts of one fault, as a rule's message sees it."""

    def __init__(self, job: Job, facts: dict[str, Any]) -> None:
        self.job = job
        self.facts = {f"fault.{name}": value for name, value in facts.items()}

    def __getitem__(self, name: str) -> Any:
        return self.facts[name] if name in self.facts else self.job[name]


def _job(scope: Any) -> Job:
    job: Job = scope.job if isinstance(scope, Scope) else scope
    return job


def _defined(scope: Any, name: str) -> bool:
    try:
        scope[name]
    except Unknown:
        return False
    return True


ON_SCOPE: dict[str, Callable[[Any, str], Any]] = {
    "defined": _defined,
    "written": lambda scope, name: _job(scope).key(name) in _job(scope).written,
    "key": lambda scope, name: Words(_job(scope).key(name)),
}
"""Functions of a name: is it known, does it stand in the file, what is its key."""
