"""The reference in ``docs/``: what ``explain`` says of everything, as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from fp8tune.facts import FACTS
from fp8tune.fields import FIELDS
from fp8tune.lint.explain import keys
from fp8tune.lint.explain.fact import FactPage, fact_page
from fp8tune.lint.explain.key import default, kind, takes
from fp8tune.lint.explain.myths import Myth, myths
from fp8tune.lint.explain.reads import builtin
from fp8tune.lint.explain.rule import RulePage, rule_page
from fp8tune.lint.rules import CONSEQUENCES
from fp8tune.lint.wording import plain, shown
from fp8tune.trainers.trainer import NAMES, trainer

NOTE = "<!-- Written by `fp8tune rules docs docs`; do not edit. -->\n\n"


def reference() -> dict[str, str]:
    """Every page of the reference: its path and its text."""
    found = {}
    for category in CONSEQUENCES:
        rules = [rule for rule in builtin() if rule.category == category]
        if rules:
            pages = [rule_page(rule) for rule in rules]
            found[f"rules/{category}.md"] = _text(_category(category, pages))
    found["keys.md"] = _text(_keys())
    found["facts.md"] = _text(_facts())
    found["myths.md"] = _text(_myths())
    return found


def write(pages: dict[str, str], folder: str) -> None:
    """Write pages below a folder, and remove pages of categories that have gone."""
    rules = os.path.join(folder, "rules")
    os.makedirs(rules, exist_ok=True)
    for name in os.listdir(rules):
        if name.endswith(".md") and f"rules/{name}" not in pages:
            os.remove(os.path.join(rules, name))
    for name, text in pages.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def _text(blocks: Iterable[str]) -> str:
    return NOTE + "\n\n".join(blocks) + "\n"


def _category(category: str, pages: list[RulePage]) -> Iterator[str]:
    yield f"# Rules: {category}"
    yield f"{_sentence(CONSEQUENCES[category])} {len(pages)} rules."
    yield _table(
        ("Rule", "Code", "Severity", "What it finds"),
        ((_link(p.name), p.code, p.severity, p.summary) for p in pages),
    )
    for page in pages:
        yield from rule_section(page)


def rule_section(page: RulePage) -> Iterator[str]:
    """The part of a page that is about one rule."""
    whose = f"{page.trainer} configs" if page.trainer else "configs of every trainer"
    status = "" if page.status == "stable" else f", {page.status}"
    yield f"## {page.name}"
    yield f"{page.summary}."
    yield (
        f"`{page.code}`, {page.severity}, confidence {page.confidence}, "
        f"since {page.since}{status}; checks {whose}."
    )
    if page.when:
        yield f"Fires when\n\n{_fence(page.when)}"
    yield page.why
    for example in page.bad[:1]:
        yield f"Fires on\n\n{_fence(example.config, 'toml')}\n\nand says"
        yield _fence(example.finding)
    for config in page.good[:1]:
        yield f"Silent on\n\n{_fence(config, 'toml')}"
    for fix in page.fixes:
        changes = f"; {fix.changes}" if fix.changes else ""
        yield f"Fix, {fix.safety}: {fix.title}{changes}."
    for experiment in page.experiments:
        yield from _experiment(experiment)
    yield "Evidence:\n\n" + _listed(page.references)
    if page.myths:
        yield _claims(page.myths, "../myths.md")


def _experiment(experiment: dict[str, object]) -> Iterator[str]:
    yield "How to show it:"
    for name, value in experiment.items():
        if isinstance(value, str) and "\n" in value.strip():
            yield f"{name}:\n\n{_fence(value.strip(), 'toml')}"
        else:
            yield f"{name}: `{value if isinstance(value, str) else shown(value)}`"


def _keys() -> Iterator[str]:
    yield "# Config keys"
    for owner in NAMES:
        schema = trainer(owner).schema
        yield (
            f"What [{schema.title}]({schema.source}) reads. `fp8tune explain KEY` adds "
            "the rules that read a key and the facts that depend on it."
        )
        for section in schema.sections:
            yield f"## [{section}]"
            yield _table(
                ("Key", "Type", "Default", "Takes", "Meaning", "Called elsewhere"),
                (_key(name) for name in keys() if name.partition(".")[0] == section),
            )


def _key(name: str) -> tuple[str, ...]:
    _, spec = keys()[name]
    called = ", ".join(f"`{word}`" for word in spec.aka)
    bare = name.partition(".")[2]
    value = f"`{default(spec)}`" if not spec.required else default(spec)
    return f"`{bare}`", kind(spec), value, takes(spec), spec.doc, called


def _facts() -> Iterator[str]:
    owner = NAMES[0]
    title = trainer(owner).schema.title
    yield "# Fields and facts"
    yield (
        "Names that rules may use. `fp8tune explain NAME CONFIG` shows how the value "
        "comes about in a config."
    )
    fields = [fact_page(owner, name) for name in FIELDS]
    yield "## Fields of the job"
    head = ("Field", "Meaning", title)
    yield _table(head, ((p.name, p.meaning, _said(p)) for p in fields))
    yield f"## Formulas of {title}"
    own = (n for n in trainer(owner).vocabulary.computed if n not in {*FACTS, *FIELDS})
    for page in (*fields, *(fact_page(owner, name) for name in own)):
        if page.formula.lines:
            yield from _fact(page)
    yield "## Facts"
    for name in FACTS:
        yield from _fact(fact_page(owner, name))


def _said(page: FactPage) -> str:
    if page.formula.lines:
        return _link(page.name)
    return f"`{page.said}`" if "." in page.said else page.said


def _fact(page: FactPage) -> Iterator[str]:
    yield f"### {page.name}"
    yield page.meaning
    if page.details:
        yield page.details
    yield _fence("\n".join((*page.formula.lines, *page.formula.where())))
    if page.source and not page.trainer:
        yield f"Source: {page.source}"
    if page.myths:
        yield _claims(page.myths, "myths.md")


def _myths() -> Iterator[str]:
    yield "# What people say about FP8 training"
    for myth in myths():
        yield f"## {myth.name}"
        yield f'"{myth.claim}": **{myth.verdict}**.'
        yield myth.answer.strip()
        yield _listed(myth.sources)


def _claims(told: Iterable[Myth], page: str) -> str:
    """The claims, linked to their answers on the page of myths."""
    links = (f'["{m.claim}"]({page}#{m.name}) ({m.verdict})' for m in told)
    return f"People say: {', '.join(links)}."


def _listed(addresses: Iterable[str]) -> str:
    marks = (f"<{a}>" if a.startswith("http") else f"`{a}`" for a in addresses)
    return "\n".join(f"- {mark}" for mark in marks)


def _link(name: str) -> str:
    return f"[{name}](#{name})"


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _fence(body: str, language: str = "") -> str:
    lines = "\n".join(plain(line) for line in body.split("\n"))
    return f"```{language}\n{lines}\n```"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
