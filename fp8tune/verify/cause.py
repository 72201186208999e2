"""A known cause of a failed or poor run: one file, ``rules/run/<name>.toml``.

A cause is found by the texts that it leaves in a log, by a condition over figures of
the run (``figures.py``), or both. ``CONTRIBUTING.md`` explains the fields.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any

from fp8tune.conditions.expression import Expression, compile_expression
from fp8tune.job import Job, Prose, Unknown, Words
from fp8tune.lint.builtin import CAUSES, builtin_folder
from fp8tune.lint.repair import Repair, compile_repair
from fp8tune.lint.wording import Template, compile_template
from fp8tune.verify.figures import FIGURES
from fp8tune.verify.shapes import Text

ROLES = ("root", "symptom", "exception", "event")
"""What a cause is.

``root``: it stands by itself. ``symptom``: something else made it happen, such as a
time-out of the ranks that wait for a dead one. ``exception``: an error that fp8tune
does not know. ``event``: no cause, only counted by figures.
"""

OUTCOMES = {"rejected": "user", "crash": "user", "memory": "oom", "stability": "nan"}
"""How a trial ends by a cause, by category, where its file does not say it."""

MAX_TEXT = 160
"""Longest captured text in a message [characters]."""


class Cause:
    """One cause, as its file defines it; see ``CONTRIBUTING.md``."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.name: str = data["name"]
        self.title: str = data["title"]
        self.category: str = data["category"]
        self.severity: str = data["severity"]
        self.role: str = data.get("role", "root")
        self.of: str = data.get("of", "")
        self.wraps: int = data.get("wraps", 0)
        self.order: int = data.get("order", 0)
        self.trainers = _listed(data.get("trainer", ()))
        self.implies: tuple[str, ...] = tuple(data.get("implies", ()))
        self.rules: tuple[str, ...] = tuple(data.get("rules", ()))
        self.outcome: str = data.get("outcome") or OUTCOMES.get(self.category, "")
        self.help: str = data.get("help", "")
        self.why: str = data.get("why", "").strip()
        self.references: tuple[str, ...] = tuple(data.get("references", ()))

    @cached_property
    def texts(self) -> tuple[Text, ...]:
        """The texts that it leaves in a log."""
        return tuple(
            Text(
                self.name,
                re.compile(entry["pattern"]),
                tuple(each.encode() for each in entry["triggers"]),
                tuple(entry.get("examples", ())),
                tuple(entry.get("counterexamples", ())),
            )
            for entry in self.data.get("text", ())
        )

    @cached_property
    def when(self) -> Expression | None:
        """The compiled condition, if it has one."""
        source = self.data.get("when")
        return self.compiled(source) if source else None

    @cached_property
    def messages(self) -> tuple[Template, ...]:
        """The compiled messages; the first whose names are all known is taken."""
        sources = _listed(self.data.get("message", ()))
        return tuple(compile_template(each, self.compiled) for each in sources)

    @cached_property
    def fixes(self) -> list[Repair]:
        """The compiled fixes of the config; the first that applies is taken."""
        return [
            compile_repair(entry, self.compiled) for entry in self.data.get("fix", ())
        ]

    def compiled(self, source: str) -> Expression:
        """Return an expression that may name figures, captured texts and the job."""
        return compile_expression(source, _anything, ON_SCOPE)


class Scope:
    """The names of a cause's expressions for one run.

    ``log.`` and ``trace.`` are figures, ``text.`` what a pattern captured in the first
    line, ``text.rank`` the process that printed it and ``text.last_step`` the step of
    the last line; any other name is one of the config's job, if there is a config.
    """

    def __init__(
        self,
        figures: Any,
        captured: Mapping[str, str],
        job: Job | None = None,
    ) -> None:
        self.figures = figures
        self.captured = captured
        self.job = job

    def __getitem__(self, name: str) -> Any:
        """Return the value of a name; raises ``Unknown``."""
        section, _, rest = name.partition(".")
        if section == "text":
            if not self.captured.get(rest):
                raise Unknown(name)
            return _value(self.captured[rest])
        if name in FIGURES:
            value = self.figures[name]
            plain = isinstance(value, str) and not isinstance(value, Words)
            return Words(value) if plain else value
        return self._of_job(name)[name]

    def _of_job(self, name: str) -> Job:
        if self.job is None:
            raise Unknown(name)
        return self.job

    def key(self, name: str) -> Words:
        """Return the config key of a field; raises ``Unknown`` without a config."""
        return Words(self._of_job(name).key(name))

    def defined(self, name: str) -> bool:
        """Return whether the value of a name is known."""
        try:
            self[name]
        except Unknown:
            return False
        return True


ON_SCOPE: dict[str, Callable[[Any, str], Any]] = {
    "defined": Scope.defined,
    "key": Scope.key,
}
"""Functions of a name: is it known, what is its key in the config."""


@cache
def causes() -> dict[str, Cause]:
    """Return all causes by name, in the order of their names."""
    folder = os.path.join(builtin_folder(), CAUSES)
    found = {}
    for file_name in sorted(os.listdir(folder)):
        if file_name.endswith(".toml"):
            with open(os.path.join(folder, file_name), "rb") as file:
                cause = Cause(tomllib.load(file))
            found[cause.name] = cause
    return found


@cache
def texts() -> tuple[Text, ...]:
    """Return the texts of all causes, for the reader of logs."""
    return tuple(text for cause in causes().values() for text in cause.texts)


def filled(templates: tuple[Template, ...], scope: Scope) -> str:
    """Return the first of several texts whose names are all known, else ``""``."""
    for template in templates:
        try:
            return template.fill(scope)
        except Unknown:
            continue
    return ""


def _value(text: str) -> Any:
    """Return a captured text as a number if it is one, else as words."""
    plain = text.replace(",", "")
    if len(plain) <= 24:
        for kind in (int, float):
            try:
                return kind(plain)
            except ValueError:
                continue
    shown = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 4]} ..."
    return Prose(shown)


def _listed(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _anything(_: str) -> bool:
    return True  # tests check the names
