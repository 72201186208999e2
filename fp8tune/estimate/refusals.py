"""What keeps a run from starting or from its first steps: lint's word on a job.

The rules are those that ``fp8tune lint`` applies, so that no estimate speaks of a run
that lint calls impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from fp8tune.job import Job, Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.config import Config
from fp8tune.lint.engine import check
from fp8tune.lint.rules import Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.scope import of_fault
from fp8tune.trainers.faults import Fault

FATAL = ("rejected", "crash")


class Refusal(NamedTuple):
    """Why a run fails, in lint's words.

    ``voids`` says that it has to do with what memory rests on, or that the trainer
    does not even start: then there is nothing to estimate. ``line`` and ``column`` are
    where lint points at, 0 for a variant of the file; ``argument`` sets the value
    on the command line.
    """

    rule: str
    message: str
    help: str
    voids: bool
    line: int = 0
    column: int = 0
    argument: str = ""


def placed(refused: list[Refusal], config: Config) -> list[Refusal]:
    """The refusals of a config with the places where lint's findings stand."""
    target = config.job.target
    found = check(
        config.path,
        config.data,
        Rules(_rules(), {}),
        target,
        only=config.trainer.id,
        overrides=config.overrides,
    )
    places = [(one.rule, one.message, one.labels[0]) for one in found.diagnostics]

    def at(refusal: Refusal) -> Refusal:
        for rule, message, label in places:
            if rule == refusal.rule and message.startswith(refusal.message):
                line, column = label.region[:2]
                argument = label.argument.text if label.argument else ""
                return refusal._replace(line=line, column=column, argument=argument)
        return refusal

    return list(map(at, refused))


def of_file(faults: Iterable[Fault], job: Job) -> list[Refusal]:
    """What the trainer's loader refuses."""
    return [
        said
        for fault in faults
        for rule in _rules()
        if rule.fault == fault.kind and rule.is_for(job.words.trainer)
        for said in _said(rule, of_fault(job, fault), voids=True)
    ]


def of_job(job: Job, changed: Iterable[str] = ()) -> list[Refusal]:
    """What of a job fails; of rules on ``changed`` fields, if any are named."""
    fields = set(changed)
    return [
        said
        for rule in _rules()
        if rule.source and rule.is_for(job.words.trainer)
        if not fields or rests_on(rule, job, fields)
        if _fires(rule, job)
        for said in _said(rule, job, voids=_voids(rule, job))
    ]


def rests_on(rule: Rule, job: Job, fields: set[str]) -> bool:
    """Whether a rule looks at one of some fields."""
    keys = {key for name in fields for key in job.words.origins(name)}
    return not keys.isdisjoint(_origins(rule, job))


def named(name: str) -> Rule | None:
    """The rule of a name, if it is one of those that are fatal."""
    return next((rule for rule in _rules() if rule.name == name), None)


@cache
def _rules() -> list[Rule]:
    found = read_builtin()
    return [r for r in found if r.category in FATAL and r.severity == "error"]


def _origins(rule: Rule, job: Job) -> set[str]:
    names = rule.when.names
    return {origin for name in names for origin in job.words.origins(name)}


def _voids(rule: Rule, job: Job) -> bool:
    """Whether only what memory rests on can fix it, or the loader refuses.

    What other data or another optimizer would fix leaves the figures as they are.
    """
    rests = {"gpu", *job.words.origins("memory.peak_gib")}
    return rule.category == "rejected" or _origins(rule, job) <= rests


def _fires(rule: Rule, job: Job) -> bool:
    try:
        return bool(rule.when.evaluate(job))
    except Unknown:
        return False


def _said(rule: Rule, scope: Any, *, voids: bool) -> Iterator[Refusal]:
    """The refusal, unless its words need what is unknown, as in lint."""
    try:
        yield Refusal(rule.name, rule.message.fill(scope), rule.help.fill(scope), voids)
    except Unknown:
        return
