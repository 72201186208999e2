"""Run the examples of every rule.

In a bad example double angle quotes enclose the primary span and single ones each
further span; the marks are removed before the check. A bad example must fire its rule
once, at that span, and no other rule except those in ``also``. A good example must fire
no rule except those in ``also``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fp8tune.formats import TITLES, parse
from fp8tune.formats.document import InvalidText, Lines
from fp8tune.job import Target
from fp8tune.lint.compare import conflicts
from fp8tune.lint.diagnostic import Diagnostic, Region, Report
from fp8tune.lint.engine import check
from fp8tune.lint.rules import Example, Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.packages import assuming

_MARKS = re.compile("[\u00ab\u00bb\u2039\u203a]")


class Failure(NamedTuple):
    """One example that does not behave as declared."""

    rule: str
    example: str
    reason: str


def run_examples(rules: Iterable[Rule], against: Rules) -> Iterator[Failure]:
    """Check the examples of ``rules`` with all the rules of ``against``."""
    for rule in rules:
        if not rule.bad or not rule.good:
            yield Failure(rule.name, "", "needs at least one [[bad]] and one [[good]]")
        if rule.data.get("fix") and not any(example.fixed for example in rule.bad):
            yield Failure(rule.name, "", "shows no fix: give a [[bad]] its `fixed`")
        for number, example in enumerate(rule.bad, 1):
            for reason in _bad(rule, example, against):
                yield Failure(rule.name, f"bad {number}", reason)
        for number, example in enumerate(rule.good, 1):
            for reason in _good(rule, example, against):
                yield Failure(rule.name, f"good {number}", reason)


def plain_config(example: Example) -> str:
    """Return the example's config without marks."""
    return _MARKS.sub("", example.config)


def name_of(example: Example) -> str:
    """Return a file name of the example's format."""
    return f"example.{example.format}"


def lint_example(example: Example, against: Rules) -> Report:
    """Return the report on an example, with its second config if it has one."""
    with assuming(example.installed):
        return _report(example, against)


def _report(example: Example, against: Rules) -> Report:
    text = plain_config(example).encode()
    arguments = example.arguments
    target = Target(environment=tuple(example.environment.items()))
    report = check(name_of(example), text, against, target, overrides=arguments)
    if not example.beside:
        return report
    beside = f"beside.{example.format}"
    other = check(beside, example.beside.encode(), against, Target())
    others = conflicts([report, other]).get(report.path)
    return check(report.path, text, against, target, others=others)


def _bad(rule: Rule, example: Example, against: Rules) -> Iterator[str]:
    report = lint_example(example, against)
    mine = [found for found in report.diagnostics if found.rule == rule.name]
    if len(mine) != 1:
        yield f"fires {len(mine)} times instead of once"
    for found in mine[:1]:
        yield from _spans(found, example)
        yield from _fix(found, example, against)
    yield from _others(report, {rule.name, *example.also})


def _fix(found: Diagnostic, example: Example, against: Rules) -> Iterator[str]:
    """Yield what is wrong with the fix: it must silence its rule and give ``fixed``."""
    from fp8tune.lint.rewrite import fixed_bytes

    if found.fix is None:
        if example.fixed:
            yield "offers no fix"
        return
    before = plain_config(example)
    after = fixed_bytes(before.encode(), [found]).decode()
    try:
        parse(after.encode(), name_of(example))
    except InvalidText as error:
        yield f"becomes no {TITLES[example.format]}: {error.reason}"
        return
    with assuming(example.installed):
        report = check(name_of(example), after.encode(), against, Target())
    if any(other.rule == found.rule for other in report.diagnostics):
        yield "still fires after its fix"
    elif example.fixed != after:
        yield f"becomes, and `fixed` does not say so:\n{after}"
    expected = {found.rule, *example.also}
    yield from (f"{reason} after its fix" for reason in _others(report, expected))


def _good(rule: Rule, example: Example, against: Rules) -> Iterator[str]:
    report = lint_example(example, against)
    if any(found.rule == rule.name for found in report.diagnostics):
        yield "fires"
    if report.skipped:
        yield f"is skipped as {report.skipped}"
    yield from _others(report, {rule.name, *example.also})


def _others(report: Report, expected: set[str]) -> Iterator[str]:
    yield from report.bugs
    others = sorted({found.rule for found in report.diagnostics} - expected)
    if others:
        yield f"also fires {', '.join(others)}"


def _spans(found: Diagnostic, example: Example) -> Iterator[str]:
    try:
        primary, others = marked(example.config)
    except ValueError:
        yield "has a mark without its partner"
        return
    if found.labels[0].argument:
        return
    if not primary:
        yield "marks no span with \u00ab\u00bb"
    elif found.region != primary[0]:
        yield f"points at {_text(found.region)} instead of {_text(primary[0])}"
    regions = [label.region for label in found.labels[1:]]
    if others and regions != others:
        shown = ", ".join(map(_text, regions)) or "nothing"
        yield f"also points at {shown} instead of {', '.join(map(_text, others))}"


def _text(region: Region) -> str:
    return f"{region.line}:{region.column}-{region.end_line}:{region.end_column}"


def marked(config: str) -> tuple[list[Region], list[Region]]:
    """Return the regions that the marks of a config enclose, primary and others.

    Raises ``ValueError`` for a mark without its partner.
    """
    places: dict[str, list[int]] = {mark: [] for mark in "\u00ab\u00bb\u2039\u203a"}
    bom = config.startswith("\ufeff")
    for index, match in enumerate(_MARKS.finditer(config)):
        places[match[0]].append(match.start() - index - bom)
    lines = Lines(_MARKS.sub("", config).removeprefix("\ufeff"))

    def regions(opening: str, closing: str) -> list[Region]:
        pairs = zip(places[opening], places[closing], strict=True)
        return [Region(*lines.position(a), *lines.position(b)) for a, b in pairs]

    return regions("\u00ab", "\u00bb"), regions("\u2039", "\u203a")
