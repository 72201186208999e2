"""The page of a fact or field: its meaning, its formula, and its value in a config."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import NamedTuple

from fp8tune.config.reader import Config
from fp8tune.facts import FACTS
from fp8tune.facts.runs import Run
from fp8tune.fields import FIELDS
from fp8tune.job import Source
from fp8tune.lint.explain.corrected import Corrected, corrected
from fp8tune.lint.explain.derivation import SUPPLY, Node, brief, derive, unit
from fp8tune.lint.explain.formula import Formula, formula
from fp8tune.lint.explain.myths import Myth, about
from fp8tune.lint.explain.reads import facts_reading, rules_reading
from fp8tune.trainers.trainer import trainer


class FactPage(NamedTuple):
    """Everything known about a named quantity.

    ``said`` says who sets it if it has no formula; ``inputs`` are what the formula
    reads. ``source`` is the evidence that the formula's module names, ``corrected`` the
    value corrected by measured runs, ``refused`` why the config cannot run, ``unknown``
    why its estimate has no value.
    """

    name: str
    trainer: str
    meaning: str
    details: str
    unit: str
    said: str
    formula: Formula
    inputs: list[str]
    source: str
    rules: list[str]
    facts: list[str]
    myths: list[Myth]
    derivation: Node | None
    corrected: Corrected | None
    refused: list[str] = []
    unknown: str = ""


def fact_page(
    owner: str,
    name: str,
    config: Config | None = None,
    runs: Sequence[Run] = (),
    *,
    whole: bool = True,
) -> FactPage:
    """Return the page of a fact or field, in a trainer's own words if it has some.

    The derivation of its value in a config is complete if ``whole``, else brief.
    """
    words = trainer(owner).vocabulary
    value = derive if whole else brief
    source = words.computed.get(name)
    first, details = _doc(source)
    own = name in FACTS or name in SUPPLY
    return FactPage(
        name=name,
        trainer="" if own else trainer(owner).schema.title,
        meaning=_meaning(name, first),
        details=_details(name, first, details),
        unit=unit(first),
        said=SUPPLY.get(name, words.renamed.get(name, "")),
        formula=formula(source.call, words.spelled) if source else Formula((), {}),
        inputs=[words.spelled.get(each, each) for each in source.parameters]
        if source
        else [],
        source=_evidence(source),
        rules=rules_reading(owner, name),
        facts=facts_reading(owner, name),
        myths=about(name),
        derivation=value(name, config) if config else None,
        corrected=corrected(name, config.job, runs) if config else None,
    )


def meaning(owner: str, name: str) -> str:
    """Return the meaning of a fact or field in one line."""
    return _meaning(name, _doc(trainer(owner).vocabulary.computed.get(name))[0])


def _same(name: str, first: str) -> bool:
    """Return whether a formula's first words repeat the field that it computes."""
    return first.casefold().startswith(FIELDS.get(name, "").casefold())


def _meaning(name: str, first: str) -> str:
    field = FIELDS.get(name, "")
    return first if _same(name, first) else f"{field[:1].upper()}{field[1:]}."


def _details(name: str, first: str, rest: str) -> str:
    return rest if _same(name, first) else f"{first}\n\n{rest}".strip()


def _doc(source: Source | None) -> tuple[str, str]:
    """Return the first paragraph of a function's docstring, and the others."""
    first, _, rest = ((source and inspect.getdoc(source.call)) or "").partition("\n\n")
    return " ".join(first.split()), rest.strip()


def _evidence(source: Source | None) -> str:
    """Return what the module's docstring says about sources."""
    doc = inspect.getdoc(sys.modules[source.call.__module__]) if source else ""
    told = [part for part in (doc or "").split("\n\n") if "ource" in part[:8]]
    texts = (" ".join(part.split()) for part in told)
    parts = (text.partition(":")[2].strip() for text in texts)
    return " ".join(f"{part[:1].upper()}{part[1:]}" for part in parts)
