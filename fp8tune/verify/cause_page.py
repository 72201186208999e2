"""The page of a cause of failed runs, for ``fp8tune explain``."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fp8tune.lint.explain.text import Block, prose, rendered
from fp8tune.lint.rules import CONSEQUENCES
from fp8tune.verify.cause import Cause, causes

MOST_EXAMPLES = 12
"""Lines of a log that a page shows."""


def text(cause: Cause, *, colour: bool = False) -> str:
    """Return the page as text of at most 80 columns."""
    return rendered(_blocks(cause), colour=colour)


def data(cause: Cause) -> str:
    """Return the page as one JSON object."""
    page = {
        "version": 1,
        "kind": "cause",
        "name": cause.name,
        "title": cause.title,
        "category": cause.category,
        "severity": cause.severity,
        "why": cause.why,
        "help": cause.help,
        "when": cause.data.get("when", ""),
        "examples": examples(cause),
        "follows": list(cause.implies),
        "rules": list(cause.rules),
        "references": list(cause.references),
    }
    return json.dumps(page, indent=2)


def examples(cause: Cause) -> list[str]:
    """Return one line of a log for each of the cause's texts, or of the general one."""
    texts = cause.texts or causes().get(cause.of, cause).texts
    lines = [text.examples[0] for text in texts if text.examples]
    return lines[:MOST_EXAMPLES]


def _blocks(cause: Cause) -> Iterator[Block]:
    yield Block(cause.name, prose(cause.title, ""))
    consequence = CONSEQUENCES[cause.category]
    yield Block("", prose(f"{cause.category}: {consequence}; {cause.severity}", ""))
    yield Block("Why", prose(cause.why))
    yield Block("What to do", prose(cause.help))
    yield Block("In a log", [line for each in examples(cause) for line in prose(each)])
    yield Block("Found if", prose(cause.data.get("when", "")))
    yield Block("Then often", prose(", ".join(cause.implies)))
    rules = "".join(f"`fp8tune explain {name}`\n\n" for name in cause.rules)
    yield Block("Rules of lint on the same", prose(rules))
    yield Block("Evidence", [f"  {address}" for address in cause.references])
