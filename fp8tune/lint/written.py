"""Lint what fp8tune itself wrote: which findings of a changed config are new."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from fp8tune.config.settings import BadSettings, settings_for
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.selection import selected
from fp8tune.trainers.trainer import Trainer


def rules_for(path: str) -> Rules:
    """Return the rules for a file at ``path``, without those its project ignores."""
    try:
        ignored = settings_for(os.path.dirname(os.path.abspath(path))).ignore
    except BadSettings:
        ignored = ()
    every = read_builtin()
    kept = [r for r in every if not any(selected(r, by) for by in ignored)]
    return Rules(kept, {}, every)


def new_findings(
    path: str,
    before: bytes,
    after: bytes,
    target: Target,
    *,
    only: str | Trainer = "",
    overrides: tuple[str, ...] = (),
) -> Iterator[Diagnostic]:
    """Yield the findings of a changed config that the config before did not have.

    ``path`` is where it will be written; ``only`` names or is the trainer.
    """
    rules = rules_for(path)
    old, new = (
        {(found.rule, _line(data, found)): found for found in reversed(diagnostics)}
        for data in (before, after)
        for diagnostics in [
            check(path, data, rules, target, only=only, overrides=overrides).diagnostics
        ]
    )
    # a finding that was there before is not new, even on a changed line
    moved = Counter(rule for rule, line in old if (rule, line) not in new)
    for (rule, line), found in sorted(new.items(), key=lambda item: item[1].region):
        if (rule, line) in old:
            continue
        if moved[rule]:
            moved[rule] -= 1
        else:
            yield found


def _line(data: bytes, found: Diagnostic) -> bytes:
    """Return the text of the line that a finding points at."""
    lines = data.split(b"\n")
    return lines[found.region.line - 1] if found.region.line <= len(lines) else b""
