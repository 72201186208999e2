"""The page of a rule: its message, why, examples, and its verdict on a config."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fp8tune.conditions.expression import compile_expression
from fp8tune.config.reader import Config
from fp8tune.job import Unknown
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.engine import check_config
from fp8tune.lint.examples import lint_example, plain_config
from fp8tune.lint.explain.derivation import Node, derive
from fp8tune.lint.explain.myths import Myth, about
from fp8tune.lint.explain.reads import builtin
from fp8tune.lint.rules import CONSEQUENCES, Example, Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.scope import ON_SCOPE
from fp8tune.lint.snippet import Painter
from fp8tune.trainers.about import trainers


class FixText(NamedTuple):
    """The effect of a fix; ``changes`` says how the run changes."""

    safety: str
    title: str
    changes: str


class Shown(NamedTuple):
    """A bad example: its first finding as a line, the help, and lint's output.

    ``fixed`` is the config after the fix.
    """

    config: str
    message: str
    help: str
    finding: str
    fix: FixText | None
    fixed: str


class Part(NamedTuple):
    """One of several conditions that must all be true: true, false or unknown here."""

    condition: str
    state: str


class FindingText(NamedTuple):
    """A finding in the config: its place and message."""

    line: int
    message: str
    fix: FixText | None


class Verdict(NamedTuple):
    """The rule's verdict on one config, and the values that decide it.

    ``state`` is fires, ignored (a comment suppresses the finding), silent, or unknown.
    """

    path: str
    state: str
    findings: list[FindingText]
    parts: list[Part]
    values: list[Node]


class RulePage(NamedTuple):
    """Everything known about a rule.

    It is for the trainer's ``releases`` from ``since`` to ``until``, both included;
    ``seen`` says in which published configs it was found.
    """

    name: str
    code: str
    category: str
    consequence: str
    severity: str
    confidence: str
    since: str
    trainer: str
    releases: dict[str, str]
    summary: str
    why: str
    when: str
    fault: str
    bad: list[Shown]
    good: list[str]
    fixes: list[FixText]
    experiments: list[dict[str, Any]]
    seen: list[str]
    references: list[str]
    myths: list[Myth]
    verdict: Verdict | None
    format: str

    @property
    def checks(self) -> str:
        """The configs that the rule is for, in words."""
        if not self.trainer:
            return "checks configs of every trainer"
        first, last = (self.releases.get(end, "") for end in ("since", "until"))
        releases = f" {first} and later" if first else ""
        if last:
            releases = f" {first} to {last}" if first else f" up to {last}"
        if first and first == last:
            releases = f" {first}"
        return f"checks {self.trainer}{releases} configs"


def rule_page(rule: Rule, config: Config | None = None) -> RulePage:
    """Return the page of a rule, with its verdict on a config if one is passed."""
    bad = [_bad(rule, example) for example in rule.bad]
    return RulePage(
        name=rule.name,
        code=rule.code,
        category=rule.category,
        consequence=CONSEQUENCES[rule.category],
        severity=rule.severity,
        confidence=rule.confidence,
        since=rule.since,
        trainer=" and ".join(trainers()[name].title for name in rule.trainers),
        releases=dict(rule.releases),
        summary=rule.summary,
        why=rule.why.strip(),
        when=_when(rule),
        fault=rule.fault,
        bad=bad,
        good=[_text(example) for example in rule.good],
        fixes=_fixes(bad),
        experiments=list(rule.data.get("experiment", [])),
        seen=rule.seen,
        references=rule.references,
        myths=about(rule.name),
        verdict=_verdict(rule, config) if config else None,
        format=next((each.format for each in rule.bad), "toml"),
    )


def _when(rule: Rule) -> str:
    """Return the condition, and for a rule on two files what it compares."""
    said = " ".join(rule.source.split())
    if not rule.same:
        return said
    return (
        f"{said}\nand another config that is linted with it has the same {rule.same} "
        f"and another {rule.differs}"
    )


def _text(example: Example) -> str:
    """Return the text of an example, below its command line if it has one."""
    text = plain_config(example).strip("\ufeff\n")
    arguments = " ".join(example.arguments)
    return f"# train.py CONFIG {arguments}\n{text}" if arguments else text


def _bad(rule: Rule, example: Example) -> Shown:
    report = lint_example(example, _against(rule))
    text = _text(example)
    for found in _mine(rule, report.diagnostics)[:1]:
        line = f"{found.severity}: {found.message}"
        shown, fixed = _rendered(found, report), example.fixed.strip("\n")
        return Shown(text, line, found.help, shown, _fix(found), fixed)
    return Shown(text, "", "", "", None, "")


def _against(rule: Rule) -> Rules:
    """Return all rules: rules on ignore comments depend on the findings of others."""
    return Rules([rule, *(other for other in builtin() if other.name != rule.name)], {})


def _mine(rule: Rule, found: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [each for each in found if each.rule == rule.name]


def _rendered(found: Diagnostic, report: Report) -> str:
    return Painter(colour=False).finding(found, report.lines).rstrip()


def _fix(found: Diagnostic) -> FixText | None:
    return FixText(*found.fix[:3]) if found.fix else None


def _fixes(shown: list[Shown]) -> list[FixText]:
    """Return the fixes that the examples show, each effect once."""
    found: dict[tuple[str, str], FixText] = {}
    for example in shown:
        if example.fix:
            found.setdefault((example.fix.safety, example.fix.changes), example.fix)
    return list(found.values())


def _verdict(rule: Rule, config: Config) -> Verdict:
    report = check_config(config, _against(rule))
    fired = _mine(rule, report.diagnostics)
    held = _mine(rule, (each.finding for each in report.suppressed))
    parts = list(_parts(rule, config))
    names = rule.when.names if rule.source else ()
    return Verdict(
        path=config.path,
        state="fires" if fired else "ignored" if held else _quiet(parts),
        findings=[
            FindingText(found.region.line, found.message, _fix(found))
            for found in (*fired, *held)
        ],
        parts=parts,
        values=[derive(name, config, 1) for name in names],
    )


def _quiet(parts: list[Part]) -> str:
    """Return whether a rule without finding is silent or was not checked."""
    decided = not parts or any(part.state == "false" for part in parts)
    return "silent" if decided else "unknown"


def _parts(rule: Rule, config: Config) -> Iterator[Part]:
    if not rule.source:
        return
    text = f"({rule.source}\n)"
    tree = ast.parse(text, mode="eval").body
    several = isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And)
    for node in tree.values if several and isinstance(tree, ast.BoolOp) else [tree]:
        source = ast.get_source_segment(text, node) or rule.source
        condition = compile_expression(source, rule.knows, ON_SCOPE)
        try:
            state = "true" if condition.evaluate(config.job) else "false"
        except Unknown:
            state = "unknown"
        yield Part(" ".join(source.split()), state)
