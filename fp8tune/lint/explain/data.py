"""Pages as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from fp8tune.lint.explain import ListPage, MythPage, Page
from fp8tune.lint.explain.fact import FactPage
from fp8tune.lint.explain.glossary import Term
from fp8tune.lint.explain.key import KeyPage
from fp8tune.lint.explain.rule import RulePage
from fp8tune.words import shown

KINDS = {
    RulePage: "rule",
    KeyPage: "key",
    FactPage: "fact",
    ListPage: "list",
    MythPage: "myths",
    Term: "word",
}


def data(page: Page) -> str:
    """Return a page as one JSON object; ``kind`` says which fields it has."""
    head = {"version": 1, "kind": KINDS[type(page)]}
    return json.dumps(head | _plain(page), indent=2)


def _plain(value: Any) -> Any:
    """Return a value as JSON; types that JSON lacks become text."""
    if hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value) if isinstance(value, str) else shown(value)
