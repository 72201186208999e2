"""What stands at a place of a config: rules that fire, the key, and the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fp8tune.config.reader import Config
from fp8tune.estimate.grid import Variants
from fp8tune.estimate.show import memory_of
from fp8tune.estimate.target import titled
from fp8tune.estimate.whole import alone, uncovered
from fp8tune.facts.runs import BadCalibration
from fp8tune.facts.stored import read
from fp8tune.formats.document import ConfigDocument, Path, Span
from fp8tune.lint.rules import CONSEQUENCES, Rule
from fp8tune.lsp.keys import about, keys_of, name_of
from fp8tune.studies import CALIBRATION
from fp8tune.trainers.unknown_keys import as_typed

MAX_WHY = 1500
"""Longest reason of a rule that is shown [characters]."""


def of_rules(rules: Iterable[Rule]) -> Iterator[str]:
    """Yield what each rule says and why, in Markdown."""
    for rule in rules:
        what = f"{rule.category}: {CONSEQUENCES[rule.category]}"
        yield f"**{rule.name}** ({rule.code}, {what})\n\n{rule.summary}"
        why = rule.why.strip()
        yield why if len(why) <= MAX_WHY else f"{why[:MAX_WHY]} ..."
        links = (f"[{number}]({url})" for number, url in enumerate(rule.references, 1))
        evidence = f"Evidence: {' '.join(links)}. " if rule.references else ""
        more = f"More: `fp8tune explain {rule.name}`" if rule.builtin else ""
        if evidence or more:
            yield f"{evidence}{more}".strip()


def of_key(config: Config, offset: int) -> tuple[str, Span] | None:
    """Return what the key at a place means, and its span; ``None`` if none is there."""
    found = key_at(config.alone, offset)
    if found is None:
        return None
    path, span = found
    section = config.parts[0].section
    name = name_of((section, *path) if section else path)
    key = keys_of(config.trainer).by_name.get(name)
    if key is None:
        return None
    return about(as_typed(path, config.trainer), key, config.trainer), span


def key_at(document: ConfigDocument, offset: int) -> tuple[Path, Span] | None:
    """Return the innermost key that is named, or has its value, at a place."""
    spans = document.spans
    named = ((path, span) for path, each in spans.names.items() for span in each)
    every = (*named, *spans.keys.items(), *spans.values.items())
    there = [(p, s) for p, s in every if p and s[0] <= offset <= s[1]]
    return min(there, key=lambda one: one[1][1] - one[1][0], default=None)


def of_memory(config: Config) -> str:
    """Return what the estimate says of the memory of the config, in Markdown."""
    if why := uncovered(config.trainer):
        return why
    variants = Variants(config)
    try:
        variants.runs = read(CALIBRATION)
    except BadCalibration as error:
        return str(error)
    lines = "\n".join(memory_of(alone(variants, titled(config))))
    return f"```text\n{lines}\n```"
