"""What the written values made wrong in the rest of the file: comments, mostly.

The linter says it: what it finds in the tuned config and did not find in the user's.
Only a person can mend a sentence, so it is pointed out and left as it is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.selection import selected
from fp8tune.lint.settings import BadSettings, settings_for
from fp8tune.search.plan import TrainConfig, role_of
from fp8tune.search.stale_comments import ChangedKey, stale_comments
from fp8tune.search.writeback import Choice


def aftermath(path: str, before: bytes, after: bytes, target: Target) -> Iterator[str]:
    """New findings of a config that was changed, one line each.

    ``path`` is where it will stand; what the project ignores is not told.
    """
    rules = rules_for(path)
    old, new = (
        {(found.rule, _line(data, found)): found for found in reversed(report)}
        for data in (before, after)
        for report in [check(path, data, rules, target).diagnostics]
    )
    # a finding of the user's on a line that was changed is no new one
    moved = Counter(rule for rule, line in old if (rule, line) not in new)
    for (rule, line), found in sorted(new.items(), key=lambda item: item[1].region):
        if (rule, line) in old:
            continue
        if moved[rule]:
            moved[rule] -= 1
        else:
            yield f"{path}:{found.region.line}: {found.message} [{rule}]"


def notes(
    path: str, config: TrainConfig, after: bytes, choices: Iterable[Choice]
) -> Iterator[str]:
    """What a user should look at in a tuned config: lint's findings come first."""
    found = list(aftermath(path, config.data, after, config.job.target))
    yield from found
    told = {line.split(": ", 1)[0] for line in found}
    before = config.loaded.values
    changes = [
        ChangedKey(key, role_of(config.trainer, key), before.get(key), value)
        for key, value, _ in choices
        if before.get(key) != value
    ]
    for line in stale_comments(path, after, changes):
        if line.split(": ", 1)[0] not in told:
            yield line


def rules_for(path: str) -> Rules:
    """The rules for a file there, without those that its project ignores."""
    try:
        ignored = settings_for(os.path.dirname(os.path.abspath(path))).ignore
    except BadSettings:
        ignored = ()
    every = read_builtin()
    kept = [r for r in every if not any(selected(r, by) for by in ignored)]
    return Rules(kept, {}, every)


def _line(data: bytes, found: Diagnostic) -> bytes:
    """The text of the line that a finding stands on."""
    lines = data.split(b"\n")
    return lines[found.region.line - 1] if found.region.line <= len(lines) else b""
