"""Why a config cannot be searched as it stands: lint's word, before any trial."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import cache
from typing import Any

from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.search.aftermath import rules_for
from fp8tune.search.plan import CannotPlan, TrainConfig, left_out
from fp8tune.search.writeback import Choice, write_back
from fp8tune.trials.record import Record

FAILS = {"rejected": "refuses this config", "crash": "crashes on this config"}
"""What the trainer does, by the category of a finding that is an error."""
USUAL = ("micro_batch", "ac", "compile", "precision")
"""Roles of the knobs that every search has."""
UNSEEN = {"whole-model-before-sharding": "runs out of memory"}
"""The same by rules on what a trial does not do: it builds its own share alone."""


def check_config(config: TrainConfig, free: Container[str]) -> None:
    """Raise ``CannotPlan`` where no value of the free keys makes the trainer run it."""
    found = list(refusals(config, free))
    if found:
        others = f" and {len(found) - 1} more" * bool(found[1:])
        hint = f"mend that{others} first, see: fp8tune lint {config.path}"
        raise CannotPlan(f"{found[0]}; {hint}")


def refusals(config: TrainConfig, free: Container[str]) -> Iterator[str]:
    """What keeps the trainer from running a config, one line each.

    What has to do with a free key is left to the search, but for a value that the
    trainer cannot read: from there no search can start.
    """
    for found in _fatal(config, config.data):
        left = any(label.key in free for label in found.labels)
        if not left or _is_fault(found, rules_for(config.path)):
            place = f"{found.path}:{found.region.line}"
            trainer = config.trainer.schema.title
            how = UNSEEN.get(found.rule) or FAILS[found.category]
            yield f"{place}: {found.message} [{found.rule}]; {trainer} {how}"


def runnable(
    config: TrainConfig, records: Sequence[Record]
) -> tuple[list[Record], list[str]]:
    """The records of settings that the trainer runs, and why not the others.

    What is wrong with the config itself is not held against them, nor are knobs that
    every trial has: those are known to go with each other.
    """
    known = dict(config.trainer.schema.dotted_keys())
    own = {found.rule for found in _fatal(config, config.data)}

    @cache
    def odd(pairs: tuple[tuple[str, Any], ...]) -> str:
        made = [Choice(key, value) for key, value in pairs if value is not None]
        found = _fatal(config, write_back(config.data, made))
        return next((f"{f.message} [{f.rule}]" for f in found if f.rule not in own), "")

    usual = {config.trainer.schema.job.get(role) for role in USUAL}
    if all(key in usual or key not in known for r in records for key in r.knobs):
        return list(records), []
    wrong = [
        odd(tuple((k, v) for k, v in r.knobs.items() if k in known)) for r in records
    ]
    kept = [record for record, why in zip(records, wrong, strict=True) if not why]
    return kept, left_out(wrong)


def _fatal(config: TrainConfig, data: bytes) -> Iterator[Diagnostic]:
    """The errors of lint that are of what the trainer refuses or crashes on."""
    target = config.job.target
    if not target.world_size_origin:  # assumed, for the trials alone
        target = target._replace(world_size=0)
    name, rules = config.trainer.name, rules_for(config.path)
    for found in check(config.path, data, rules, target, only=name).diagnostics:
        fails = found.rule in UNSEEN or found.category in FAILS
        if fails and found.severity == "error":
            yield found


def _is_fault(found: Diagnostic, rules: Rules) -> bool:
    return any(rule.fault for rule in rules.named((found.rule,)))
