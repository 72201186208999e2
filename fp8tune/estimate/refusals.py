"""Find why a run cannot start or crashes in its first steps, by lint's rules.

Estimates use the same rules as ``fp8tune lint``, so that none predicts a run that lint
calls impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.job import Job, Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check_config
from fp8tune.lint.rules import Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.scope import of_fault
from fp8tune.lint.wording import as_written
from fp8tune.trainers.about import trainers
from fp8tune.trainers.faults import Fault

FATAL = ("rejected", "crash")
LEFT_OUT = "left out of this estimate"


class Refusal(NamedTuple):
    """Why a run fails, in lint's words.

    ``voids``: there is nothing to estimate, because the reason lies in settings that
    the figures depend on, or because the trainer does not start: not for a key that a
    fork of it may have. ``key`` is what the trainer's loader refuses. ``line`` and
    ``column`` are where lint's finding points, 0 for a variant of the file.
    ``argument`` is the command-line override that sets the value, if one does.
    """

    rule: str
    message: str
    help: str
    voids: bool
    key: str = ""
    line: int = 0
    column: int = 0
    argument: str = ""

    @property
    def lead(self) -> str:
        """What it means for an estimate, to stand before the message."""
        fork = self.rule == "unknown-key" and not self.voids
        return LEFT_OUT if fork else "cannot run"

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {k: v for k, v in self._asdict().items() if k != "key"}


def placed(refused: list[Refusal], config: Config) -> list[Refusal]:
    """Add to the refusals of a config the positions of lint's findings."""
    report = check_config(config, Rules([*_rules(), *_without_fp8()], {}))
    labels = {
        (each.rule, key): each.labels[0]
        for each in reversed(report.diagnostics)
        for key in ("", each.key)
    }
    form, is_key = config.document.format, config.job.words.keys.__contains__

    def at(refusal: Refusal) -> Refusal:
        words = as_written(refusal.message, form, is_key)
        hint = as_written(refusal.help, form, is_key)
        written = refusal._replace(message=words, help=hint)
        label = labels.get((refusal.rule, refusal.key))
        if label is None:
            return written
        line, column = label.region[:2]
        argument = label.argument.text if label.argument else ""
        return written._replace(line=line, column=column, argument=argument)

    return list(map(at, refused))


def of_file(faults: Iterable[Fault], job: Job) -> list[Refusal]:
    """Return what the trainer's loader refuses."""
    return [
        said._replace(key=str(fault.facts.get("key", "")))
        for fault in faults
        for rule in _rules()
        if rule.fault == fault.kind and rule.is_for(job.words.trainer)
        for scope in [of_fault(job, fault)]
        for said in _said(rule, job, scope, voids="fork" not in fault.facts)
    ]


def of_job(job: Job, changed: Iterable[str] = ()) -> list[Refusal]:
    """Return why a job fails; only by rules on ``changed`` fields, if any are named."""
    fields = set(changed)
    return [
        said
        for rule in _rules()
        if rule.source and rule.is_for(job.words.trainer)
        if not fields or rests_on(rule, job, fields)
        if _fires(rule, job)
        for said in _said(rule, job, job, voids=_voids(rule, job))
    ]


def fp8_off(job: Job) -> list[Refusal]:
    """Return why a job for which FP8 is asked computes nothing in FP8."""
    return [
        said
        for rule in _without_fp8()
        if rule.is_for(job.words.trainer) and _fires(rule, job)
        for said in _said(rule, job, job, voids=False)
    ]


def rests_on(rule: Rule, job: Job, fields: set[str]) -> bool:
    """Return whether a rule reads one of some fields."""
    keys = {key for name in fields for key in job.words.origins(name)}
    return not keys.isdisjoint(_origins(rule, job))


def named(name: str) -> Rule | None:
    """Return the rule with this name if it is fatal."""
    return next((rule for rule in _rules() if rule.name == name), None)


@cache
def _rules() -> list[Rule]:
    every = read_builtin()
    return [r for r in every if r.category in FATAL and r.severity == "error"]


@cache
def _without_fp8() -> list[Rule]:
    return [rule for rule in read_builtin() if rule.fp8 == "off"]


def _origins(rule: Rule, job: Job) -> set[str]:
    names = rule.when.names
    return {origin for name in names for origin in job.words.origins(name)}


def _voids(rule: Rule, job: Job) -> bool:
    """Return whether the loader refuses, or only what figures depend on can fix it.

    If other data or another optimizer would fix it, the figures stay valid.
    """
    figures = ("gpu", "memory.peak_gib", "speed.fp8_gain")
    rests = {key for name in figures for key in job.words.origins(name)}
    return rule.category == "rejected" or _origins(rule, job) <= rests


def _fires(rule: Rule, job: Job) -> bool:
    try:
        return bool(rule.when.evaluate(job))
    except Unknown:
        return False


def _said(rule: Rule, job: Job, scope: Any, *, voids: bool) -> Iterator[Refusal]:
    """Yield the refusal, unless its message needs an unknown fact, as in lint."""
    try:
        message, hint = rule.message.fill(scope), rule.help.fill(scope)
    except Unknown:
        return
    yield Refusal(rule.name, as_typed(message, job), as_typed(hint, job), voids)


def as_typed(text: str, job: Job) -> str:
    """Return a text with flags in place of keys, for a trainer that has flags."""
    name = job.words.trainer.partition("==")[0]
    if trainers()[name].formats != ["bash"]:
        return text
    return as_written(text, "bash", job.words.keys.__contains__)
