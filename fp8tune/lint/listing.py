"""The list of rules, for people and for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator

from fp8tune.lint.rules import Rule

WIDTH = 100


def as_text(rules: list[Rule]) -> str:
    """Return one rule per line; a long summary continues below its column."""
    width = max((len(rule.name) for rule in rules), default=0)
    code = max((len(rule.code) for rule in rules), default=0)
    return "\n".join(line for rule in rules for line in _lines(rule, code, width))


def _lines(rule: Rule, code: int, width: int) -> Iterator[str]:
    head = f"{rule.code:<{code}}  {rule.name:<{width}}  {rule.severity:<7}  "
    yield from textwrap.wrap(
        rule.summary,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )


def as_json(rules: Iterable[Rule]) -> str:
    """Return the heads of the rules as one object."""
    listed = [
        {
            "name": rule.name,
            "code": rule.code,
            "category": rule.category,
            "severity": rule.severity,
            "confidence": rule.confidence,
            "since": rule.since,
            "trainer": rule.data.get("trainer"),
            "summary": rule.summary,
            "references": rule.references,
        }
        for rule in rules
    ]
    return json.dumps({"version": 1, "rules": listed}, indent=2)
