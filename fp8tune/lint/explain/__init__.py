"""Pages of rules, config keys, facts, myths and words, with or without a config."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from fp8tune.config.reader import Config
from fp8tune.facts import FACTS
from fp8tune.facts.runs import Run
from fp8tune.fields import FIELDS
from fp8tune.lint.explain.fact import FactPage, fact_page, meaning
from fp8tune.lint.explain.glossary import Term, term, terms
from fp8tune.lint.explain.key import KeyPage, key_page
from fp8tune.lint.explain.myths import Myth, myths
from fp8tune.lint.explain.reads import builtin
from fp8tune.lint.explain.rule import RulePage, rule_page
from fp8tune.lint.rules import CATEGORIES, CONSEQUENCES
from fp8tune.suggest import closest
from fp8tune.trainers.about import trainers
from fp8tune.trainers.schema import Key
from fp8tune.trainers.trainer import trainer


class Entry(NamedTuple):
    """One line of a list: a name that has a page, and what it is."""

    name: str
    summary: str


class ListPage(NamedTuple):
    """The names in a section, a category of rules or a group of facts."""

    name: str
    meaning: str
    entries: list[Entry]


class MythPage(NamedTuple):
    """One myth or all of them."""

    name: str
    myths: list[Myth]


Page = RulePage | KeyPage | FactPage | ListPage | MythPage | Term

OF_A_RUN = ("memory", "speed")
"""Groups of facts that are nothing where there is no run."""

MAX_FOUND = 12
"""Pages that a search answers with at most."""

_INDEX = re.compile(r"\[\d*\]")


def explain(
    name: str,
    config: Config | None = None,
    place: Callable[[Config], tuple[Config, list[str]]] = lambda config: (config, []),
    runs: Sequence[Run] = (),
    *,
    whole: bool = True,
    whose: str = "",
) -> Page | None:
    """Return the page of a name; ``None`` if nothing has that name.

    A key that several trainers have is that of the config's trainer, else of ``whose``,
    else of the first; its page names the others. A field of the job comes before a key
    of that name that is not the trainer's. Rules are judged as in lint, for what
    the user has said. Facts have the target that ``place`` finds with what keeps it
    from running there, and measured runs correct them, as in an estimate. Their values
    are derived as a ``whole``, or briefly.
    """
    for rule in builtin():
        if name in (rule.name, rule.code):
            return rule_page(rule, config)
    key = _INDEX.sub("[]", name)
    asked = config.trainer.id if config else whose and trainer(whose).id
    owners, sections = keys().get(key, {}), _having_section(name)
    listed = asked in sections or name in FIELDS
    if owners and (asked in owners or not listed):
        owner = _owner(owners, asked)
        others = {trainer(each).name for each in (*owners, *sections)}
        others.remove(trainer(owner).name)
        of_key = key_page(owner, key, owners[owner], config)
        return of_key._replace(also=sorted(others))
    for owner in [asked] if asked else every():
        if name in (*FIELDS, *trainer(owner).vocabulary.computed):
            known, refused = place(config) if config else (None, [])
            mine = known.trainer.id if known else owner
            page = fact_page(mine, name, known, runs, whole=whole)
            needs_run = name.partition(".")[0] in OF_A_RUN
            return page._replace(refused=refused if needs_run else [])
    told = [myth for myth in myths() if name in (myth.name, "myths")]
    if told:
        return MythPage(name, told)
    return _list(name, asked) or term(name)


def nearest(name: str) -> str:
    """Return the name of the page that was probably meant, or ``""``."""
    pages = {page: page for page in _names()}
    for key, owners in keys().items():
        section = key.partition(".")[0]
        aka = (word for spec in owners.values() for word in spec.aka)
        for word in (*aka, key.rpartition(".")[2]):
            pages.setdefault(word, key)
            pages.setdefault(f"{section}.{word}", key)
    near = closest(name, pages) or closest(name.rpartition(".")[2], pages)
    return pages.get(near, "")


def search(words: str) -> ListPage | None:
    """Return the pages that contain most of the words, the best match first.

    It searches names, summaries, and the reasons of rules and myths. A word may be the
    beginning of a longer one: ``checkpoint`` finds checkpoints.
    """
    wanted = _words(words)
    ranked = []
    for entry, reasons in _texts():
        name, summary = _words(entry.name), _words(f"{entry.name} {entry.summary}")
        text = summary | _words(reasons)
        rank = [
            sum(_has(part, word) for word in wanted) for part in (text, summary, name)
        ]
        ranked.append(([*rank, len(wanted & text), -len(text)], entry))
    most = max(rank[0] for rank, _ in ranked)
    ranked = [(rank, entry) for rank, entry in ranked if rank[0] == most > 0]
    ranked.sort(key=lambda each: each[0], reverse=True)
    told = "No rule, key, fact, myth or word has this name. Pages that contain it:"
    entries = [entry for _, entry in ranked[:MAX_FOUND]]
    return ListPage(words, told, entries) if entries else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.casefold()))


def _has(words: set[str], beginning: str) -> bool:
    return any(word.startswith(beginning) for word in words)


def _texts() -> Iterator[tuple[Entry, str]]:
    """Yield every page with its summary, and the rest of its text."""
    for rule in builtin():
        yield Entry(rule.name, rule.summary), rule.why
    for name, owners in keys().items():
        for spec in {s.doc: s for s in owners.values() if s.doc}.values():
            yield Entry(name, spec.doc), " ".join(spec.aka)
    names: dict[str, str] = {}
    for owner in every():
        words = (*FIELDS, *FACTS, *trainer(owner).vocabulary.computed)
        names = dict.fromkeys(words, owner) | names
    for name, owner in names.items():
        yield Entry(name, meaning(owner, name)), ""
    for myth in myths():
        yield Entry(myth.name, f"{myth.claim}: {myth.verdict}"), myth.answer
    for word in terms():
        yield Entry(word.name, word.meaning), " ".join(word.also)


def every() -> list[str]:
    """The trainers' versions, the newest of each trainer first."""
    return [name for about in trainers().values() for name in about.ids]


def keys() -> dict[str, dict[str, Key]]:
    """Every key by the trainers' versions that have it.

    Those of list entries as ``data.datasets[].path``.
    """
    return _keys_of(tuple(every()))


@cache
def _keys_of(owners: tuple[str, ...]) -> dict[str, dict[str, Key]]:
    found: dict[str, dict[str, Key]] = {}
    for owner in owners:
        schema = trainer(owner).schema
        for name, key in (*schema.dotted_keys(), *schema.entry_keys()):
            found.setdefault(name, {})[owner] = key
    return found


def _owner(owners: Collection[str], asked: str) -> str:
    """The version that is asked for, if it has the key; else the newest one."""
    name = asked.partition("==")[0]
    order = [asked, *(each for each in owners if trainer(each).name == name), *owners]
    return next(each for each in order if each in owners)


def _names() -> Iterator[str]:
    """Every name with a page; of two that are spelt alike the later one is meant."""
    yield from (word.name for word in terms())
    yield from (word for rule in builtin() for word in (rule.name, rule.code))
    yield from keys()
    for owner in every():
        yield from trainer(owner).schema.sections
        yield from trainer(owner).vocabulary.computed
    yield from (*FIELDS, *CATEGORIES, *(myth.name for myth in myths()), "myths")


def _having_section(name: str) -> list[str]:
    return [each for each in every() if name in trainer(each).schema.sections]


def _list(name: str, asked: str) -> ListPage | None:
    """Return the rules of a category, the facts of a group, the keys of a section.

    Where several trainers have the section, of the one that is asked for, or the first.
    """
    having = _having_section(name)
    owner = asked if asked in having else next(iter(having), "")
    entries = [
        Entry(key, owners[owner].doc)
        for key, owners in keys().items()
        if owner in owners and key.partition(".")[0] == name
    ]
    entries += [Entry(r.name, r.summary) for r in builtin() if r.category == name]
    for fact in FACTS:
        if fact.partition(".")[0] == name:
            entries.append(Entry(fact, meaning(every()[0], fact)))
    return ListPage(name, CONSEQUENCES.get(name, ""), entries) if entries else None
