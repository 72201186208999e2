"""A rule in SARIF, with the extra fields that GitHub code scanning reads.

https://docs.github.com/code-security/reference/code-scanning/sarif-support
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from fp8tune.lint.examples import plain_config
from fp8tune.lint.formats.address import well_formed
from fp8tune.lint.rules import Example, Rule

_PRECISION = {"certain": "very-high", "high": "high", "medium": "medium"}
_PROBLEM = {"error": "error", "warning": "warning", "note": "recommendation"}
_UNRESERVED = ":/?#[]@!$&'()*+,;=%-._~"


def message(text: str) -> dict[str, str]:
    """Return a SARIF message with exactly this text: no placeholders, no links."""
    return {"text": _literal(text).replace("](", "] (")}


def descriptor(rule: Rule) -> dict[str, Any]:
    """Return the description of a rule."""
    addresses = [url for url in rule.references if url.startswith("https://")]
    link = {"helpUri": quote(addresses[0], safe=_UNRESERVED)} if addresses else {}
    return {
        "id": rule.name,
        "shortDescription": message(rule.summary),
        "fullDescription": message(_flat(rule.why) or rule.summary),
        **link,
        "help": {
            **message("\n".join(_page(rule, ""))),
            "markdown": _literal("\n".join(_page(rule, "```"))),
        },
        "defaultConfiguration": {"level": rule.severity},
        "properties": {
            "code": rule.code,
            "category": rule.category,
            "confidence": rule.confidence,
            "precision": _PRECISION[rule.confidence],
            "problem.severity": _PROBLEM[rule.severity],
            "tags": ["fp8", rule.category],
        },
    }


def _page(rule: Rule, fence: str) -> Iterator[str]:
    yield f"{rule.summary}.\n"
    if rule.why:
        yield f"{rule.why.strip()}\n"
    for title, examples in (("Fires on", rule.bad), ("Silent on", rule.good)):
        if examples:
            yield f"{title}:\n\n{_example(examples[0], fence)}\n"
    yield "Evidence:\n"
    for address in rule.references:
        yield f"- {address}"


def _example(example: Example, fence: str) -> str:
    config = plain_config(example).strip("\ufeff\n")
    return f"{fence}{example.format}\n{config}\n{fence}" if fence else config


def _flat(text: str) -> str:
    return " ".join(text.split())


def _literal(text: str) -> str:
    """Return the text with doubled braces, which mark placeholders in SARIF."""
    return well_formed(text).replace("{", "{{").replace("}", "}}")
