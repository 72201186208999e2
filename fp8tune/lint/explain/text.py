"""Pages as text of at most 80 columns, and as JSON."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, TypeGuard

from fp8tune.lint.explain import ListPage, MythPage, Page
from fp8tune.lint.explain.corrected import Corrected
from fp8tune.lint.explain.derivation import SEEN, Node, is_nested
from fp8tune.lint.explain.fact import FactPage
from fp8tune.lint.explain.glossary import Term
from fp8tune.lint.explain.key import KeyPage
from fp8tune.lint.explain.myths import Myth
from fp8tune.lint.explain.rule import FixText, RulePage, Verdict
from fp8tune.lint.snippet import Painter
from fp8tune.words import plain, shown

WIDTH = 80

STATES = {
    "fires": "fires",
    "ignored": "fires, but an ignore comment silences it",
    "silent": "silent",
    "unknown": "not checked",
}
"""Verdicts in words."""


class Block(NamedTuple):
    """A heading, if any, and the lines below it."""

    heading: str
    lines: list[str]


def text(page: Page, *, colour: bool = False) -> str:
    """Return a page as text; control characters are escaped."""
    return rendered(_blocks(page), colour=colour)


def rendered(blocks: Iterable[Block], *, colour: bool = False) -> str:
    """Return the blocks of a page as text; empty ones after the first are left out."""
    painter = Painter(colour=colour)
    parts = []
    for number, block in enumerate(blocks):
        if block.lines or not number:
            heading = painter.paint(plain(block.heading), "1")
            lines = [plain(line) for line in block.lines]
            parts.append("\n".join([*([heading] if block.heading else []), *lines]))
    return "\n\n".join(parts)


def _blocks(page: Page) -> Iterator[Block]:
    match page:
        case RulePage():
            yield from _rule(page)
        case KeyPage():
            yield from _key(page)
        case FactPage():
            yield from _fact(page)
        case ListPage():
            yield Block(page.name, prose(page.meaning, ""))
            yield Block("", list(_entries(page)))
        case MythPage():
            for myth in page.myths:
                yield Block(f'"{myth.claim}": {myth.verdict}', _myth(myth))
        case Term():
            yield Block(page.name, prose(page.meaning, ""))
            yield Block("Read more", prose(page.see))


def _rule(page: RulePage) -> Iterator[Block]:
    yield Block(f"{page.name} ({page.code})", prose(page.summary, ""))
    what = f"{page.severity}, confidence {page.confidence}, since {page.since}"
    meta = f"{page.category}: {page.consequence}\n\n{what}"
    yield Block("", prose(f"{meta}; {page.checks}", ""))
    if page.verdict:
        state = STATES[page.verdict.state]
        yield Block(f"In {page.verdict.path}: {state}", _verdict(page))
    yield Block("Fires when", prose(page.when))
    yield Block("Why", prose(page.why))
    for shown_one in page.bad[:1]:
        said = [shown_one.message, shown_one.help and f"help: {shown_one.help}"]
        lines = [line for part in said for line in prose(part)]
        yield Block("Fires on", [*_code(shown_one.config), "", *lines])
    for config in page.good[:1]:
        yield Block("Silent on", _code(config))
    yield Block("Fix for the example", [x for fix in page.fixes for x in _fix(fix)])
    for experiment in page.experiments:
        yield Block("How to show it", list(_experiment(experiment)))
    yield Block("Evidence", [f"  {address}" for address in page.references])
    yield Block("Seen in the wild", [line for x in page.seen for line in prose(x)])
    yield _myths(page.myths)


def _fix(fix: FixText) -> Iterator[str]:
    option = "--fix" if fix.safety == "safe" else "--unsafe-fixes"
    yield from prose(f"{fix.title} (fp8tune lint {option})")
    yield from prose(fix.changes, "    ")


def _experiment(experiment: dict[str, object]) -> Iterator[str]:
    for name, value in experiment.items():
        if isinstance(value, str) and "\n" in value.strip():
            yield f"  {name}:"
            yield from _code(value, "    ")
        else:
            yield from prose(
                f"{name}: {value if isinstance(value, str) else shown(value)}"
            )


def _verdict(page: RulePage) -> list[str]:
    verdict = page.verdict
    lines: list[str] = []
    for found in verdict.findings if verdict else ():
        lines += prose(f"line {found.line}: {found.message}")
        lines += [f"  {line}" for line in _fix(found.fix)] if found.fix else []
    for part in verdict.parts if verdict else ():
        lines += _hanging(f"{part.state:<7} {part.condition}", "  ", "          ")
    for node in verdict.values if verdict else ():
        lines += tree(node, "    ")
    return [*lines, *_hint(verdict)]


def _hint(verdict: Verdict | None) -> Iterator[str]:
    if verdict and any(node.inputs for node in verdict.values):
        path = "CONFIG" if verdict.path == "-" else verdict.path
        yield from prose(f"`fp8tune explain NAME {path}` follows each value further.")


def _key(page: KeyPage) -> Iterator[Block]:
    named = f"{page.name} ({page.trainer})"
    if len(named) <= WIDTH:
        yield Block(named, prose(page.meaning, ""))
    else:
        yield Block(page.name, [f"({page.trainer})", *prose(page.meaning, "")])
    if page.value:
        yield Block("In this config", tree(page.value))
    ask = f"fp8tune explain {page.name} --trainer"
    yield Block("Other trainers have it too", [f"  {ask} {t}" for t in page.also])
    facts = [f"type     {page.type}{f' [{page.unit}]' if page.unit else ''}"]
    facts += _hanging(f"default  {page.default}", "", " " * 9)
    if page.takes:
        facts += _hanging(f"takes    {page.takes}", "", " " * 9)
    yield Block("", facts)
    if page.field:
        yield Block("In rules", prose(f"{page.field}: {page.field_meaning}"))
    yield Block("Other trainers call it", _names(page.called))
    yield Block("Rules that read it", _names(page.rules))
    yield Block("Facts that depend on it", _names(page.facts))
    yield _myths(page.myths)
    yield Block("Source", [f"  {page.source}"])


def _fact(page: FactPage) -> Iterator[Block]:
    yield Block(page.name, prose(page.meaning, ""))
    yield Block("", prose(page.details, ""))
    if page.refused:
        heading = "This config cannot run, so these figures are hypothetical"
        yield Block(heading, prose("\n\n".join(page.refused)))
    if page.derivation:
        why = prose(f"unknown: {page.unknown}") if page.unknown else []
        yield Block("In this config", [*why, *tree(page.derivation)])
    if page.corrected:
        yield Block("Corrected by measured runs", _corrected(page, page.corrected))
    who = f" ({page.trainer})" if page.trainer else ""
    yield Block(f"Source{who}", prose(page.said))
    yield Block(f"Formula{who}", list(_formula(page)))
    yield Block("Reads", _names(page.inputs))
    yield Block("Rules that read it", _names(page.rules))
    yield Block("Facts that depend on it", _names(page.facts))
    yield _myths(page.myths)
    yield Block("Source", prose(page.source))


def _corrected(page: FactPage, by: Corrected) -> list[str]:
    runs = f"{by.runs} measured run{'s' * (by.runs != 1)} of similar configs"
    how = (
        f"corrected by {by.factor:.3f} from {runs}"
        if by.runs
        else "from other runs on this GPU"
    )
    return tree(Node(page.name, by.value, True, page.unit, how))


def _formula(page: FactPage) -> Iterator[str]:
    for line in page.formula.lines:
        yield from _hanging(line, "  ", "    ")
    for line in page.formula.where():
        yield from _hanging(line, "  ", "    ")


def _myths(myths: Iterable[Myth]) -> Block:
    lines = []
    for myth in myths:
        lines += prose(f'"{myth.claim}": {myth.verdict}')
        lines += [*prose(myth.answer, "    "), f"    (fp8tune explain {myth.name})"]
    return Block("Common claims", lines)


def _myth(myth: Myth) -> list[str]:
    return [*prose(myth.answer), *(f"  {source}" for source in myth.sources)]


def _entries(page: ListPage) -> Iterator[str]:
    width = max(len(entry.name) for entry in page.entries)
    for name, summary in page.entries:
        yield from _hanging(f"{name:<{width}}  {summary}", "", " " * (width + 2))


_NO_BREAK = "\xa0"


def tree(node: Node, indent: str = "  ") -> list[str]:
    """Return the lines of a derivation, each level indented further.

    A value that was already shown is only named, with its value if it is a number.
    Numbers that are not derived share lines.
    """
    again = node.origin == SEEN and isinstance(node.value, (dict, list))
    value = in_one_line(node.value, node.unit) if node.known else "unknown"
    origin = f"  ({node.origin})" if node.origin else ""
    equals = "" if again else f" = {value}"
    lines = _hanging(f"{node.name}{equals}{origin}", indent, f"{indent}    ")
    for row in () if again else rows(node.value, node.unit):
        lines += _hanging(row, f"{indent}    ", f"{indent}        ")
    if node.working:
        lines += _hanging(f"= {node.working}", f"{indent}  ", f"{indent}    ")
    for is_brief, inputs in groupby(node.inputs, _is_brief):
        if is_brief:
            values = (f"{i.name} = {in_one_line(i.value, i.unit)}" for i in inputs)
            words = ", ".join(value.replace(" ", _NO_BREAK) for value in values)
            brief = _hanging(words, f"{indent}  ", f"{indent}  ")
            lines += [line.replace(_NO_BREAK, " ") for line in brief]
        else:
            lines += [line for each in inputs for line in tree(each, f"{indent}  ")]
    return lines


def _is_brief(node: Node) -> bool:
    """Return whether a node is a number that is shown without where it comes from."""
    whole = node.inputs or node.origin or node.working
    return not whole and node.known and isinstance(node.value, (int, float))


def _number(value: Any) -> str:
    """Return a value as text, fractions with six digits."""
    return f"{value:.6g}" if type(value) is float else shown(value)


def in_one_line(value: Any, unit: str) -> str:
    """Return a value in one line with its unit; a table's rows follow it."""
    if rows(value, unit):
        return f"the sums below [{unit}]" if unit else "the table below"
    if is_nested(value):
        return f"a table of {len(value)} {'entry' if len(value) == 1 else 'entries'}"
    if value == "":
        return '""'
    text = _named_numbers(value) if value and _is_named(value) else _number(value)
    return f"{text} {unit}".strip()


def rows(value: Any, unit: str) -> list[str]:
    """Return a line for each row of a table of named numbers, else no line.

    Numbers with a unit are parts of a sum, which comes first; zeros are left out.
    """
    each: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        each = list(value.items())
    elif isinstance(value, list):
        each = [("", row) for row in value]
    if not all(_is_named(row) for _, row in each):
        return []
    return [f"{name}: {_row(row, unit)}".removeprefix(": ") for name, row in each]


def _is_named(value: Any) -> TypeGuard[dict[str, float]]:
    return isinstance(value, dict) and all(
        type(part) in (int, float) for part in value.values()
    )


def _row(row: dict[str, float], unit: str) -> str:
    if not unit:
        return _named_numbers(row)
    parts = {name: part for name, part in row.items() if part}
    equals = f" = {_named_numbers(parts)}" if parts else ""
    return f"{_number(float(sum(parts.values())))}{equals}"


def _named_numbers(row: dict[str, float]) -> str:
    return ", ".join(f"{name} {_number(part)}" for name, part in row.items())


def prose(words: str, indent: str = "  ") -> list[str]:
    """Return wrapped paragraphs; single line breaks are joined."""
    paragraphs = (part.strip() for part in words.split("\n\n") if part.strip())
    return [line for part in paragraphs for line in _hanging(part, indent, indent)]


def _names(names: list[str]) -> list[str]:
    return prose(", ".join(names))


def _code(config: str, indent: str = "  ") -> list[str]:
    return [f"{indent}{line}".rstrip() for line in config.strip("\n").split("\n")]


def _hanging(words: str, first: str, rest: str) -> list[str]:
    """Return one paragraph whose first line is indented less than the others."""
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


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
    return json.dumps(head | _as_json(page), indent=2)


def _as_json(value: Any) -> Any:
    """Return a value as JSON; types that JSON lacks become text."""
    if hasattr(value, "_asdict"):
        return {name: _as_json(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): _as_json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value) if isinstance(value, str) else shown(value)
