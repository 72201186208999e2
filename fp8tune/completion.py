"""Shell completion: GPUs, rules and studies (docs/guides/shell.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import click

from fp8tune.studies import FOLDER, within


def _offer(
    candidates: Callable[[click.Context], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completion for the last item of a comma-separated list."""

    def complete(
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG001 (click's signature)
        incomplete: str,
    ) -> list[str]:
        before, comma, word = incomplete.rpartition(",")
        return [
            f"{before}{comma}{name}"
            for name in candidates(ctx)
            if name.startswith(word)
        ]

    return complete


def _gpus(ctx: click.Context) -> Iterable[str]:  # noqa: ARG001
    from fp8tune.facts.gpus import table

    return sorted({gpu.name for gpu in table().values()})


def _rules(ctx: click.Context) -> Iterator[str]:  # noqa: ARG001
    from fp8tune.lint.builtin import read_builtin
    from fp8tune.lint.rules import CATEGORIES

    yield from CATEGORIES
    yield from (rule.name for rule in read_builtin())


def _pages(ctx: click.Context) -> Iterator[str]:
    from fp8tune.facts import FACTS
    from fp8tune.lint.explain import keys
    from fp8tune.lint.explain.glossary import terms

    yield from _rules(ctx)
    yield from keys()
    yield from FACTS
    yield from (word.name for word in terms())


def _trainers(ctx: click.Context) -> Iterator[str]:  # noqa: ARG001
    from fp8tune.trainers.about import trainers

    for about in trainers().values():
        yield from dict.fromkeys((about.name, *about.ids))


def _models(ctx: click.Context) -> Iterable[str]:  # noqa: ARG001
    from fp8tune.estimate.starter import models

    return models()


def _studies(ctx: click.Context) -> list[str]:
    folder = str(ctx.params.get("studies") or FOLDER)
    return [os.path.basename(path) for path in within(folder)]


gpus, rules, pages = _offer(_gpus), _offer(_rules), _offer(_pages)
models, studies = _offer(_models), _offer(_studies)
trainers = _offer(_trainers)
