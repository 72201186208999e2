"""Why a config cannot be searched as it stands: lint's word, before any trial."""

from __future__ import annotations

from collections.abc import Container, Iterator

from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.search.aftermath import rules_for
from fp8tune.search.plan import CannotPlan, Config

FAILS = {"rejected": "refuses this config", "crash": "crashes on this config"}
"""What the trainer does, by the category of a finding that is an error."""
UNSEEN = {"whole-model-before-sharding": "runs out of memory"}
"""The same by rules on what a trial does not do: it builds its own share alone."""


def check_config(config: Config, free: Container[str]) -> None:
    """Raise ``CannotPlan`` where no value of the free keys makes the trainer run it."""
    found = list(refusals(config, free))
    if found:
        others = f" and {len(found) - 1} more" * bool(found[1:])
        hint = f"mend that{others} first, see: fp8tune lint {config.path}"
        raise CannotPlan(f"{found[0]}; {hint}")


def refusals(config: Config, free: Container[str]) -> Iterator[str]:
    """What keeps the trainer from running a config, one line each.

    What has to do with a free key is left to the search, but for a value that the
    trainer cannot read: from there no search can start.
    """
    rules = rules_for(config.path)
    target = config.job.target
    if not target.world_size_origin:  # assumed, for the trials alone
        target = target._replace(world_size=0)
    name = config.trainer.name
    report = check(config.path, config.data, rules, target, only=name)
    for found in report.diagnostics:
        how = UNSEEN.get(found.rule) or FAILS.get(found.category)
        if how is None or found.severity != "error":
            continue
        left = any(label.key in free for label in found.labels)
        if not left or _is_fault(found, rules):
            place = f"{found.path}:{found.region.line}"
            trainer = config.trainer.schema.title
            yield f"{place}: {found.message} [{found.rule}]; {trainer} {how}"


def _is_fault(found: Diagnostic, rules: Rules) -> bool:
    return any(rule.fault for rule in rules.named((found.rule,)))
