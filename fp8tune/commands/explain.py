"""``fp8tune explain``: read the page of a rule, a config key, a fact or a word."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from fp8tune import completion
from fp8tune.cli import (
    Failure,
    WithOverrides,
    calibration_file,
    gpu_option,
    gpus_per_node_option,
    installed_option,
    named_config,
    text_or_json,
    trainer_option,
    with_option,
    world_size_option,
)

if TYPE_CHECKING:
    from fp8tune.config.reader import Config
    from fp8tune.lint.explain import Page


@click.command(
    "explain", cls=WithOverrides, short_help="Explain a rule, a config key or a fact."
)
@click.argument("name", metavar="RULE|KEY|FACT|WORD", shell_complete=completion.pages)
@click.argument("config", required=False)
@gpu_option
@world_size_option
@gpus_per_node_option
@click.option(
    "--all", "whole", is_flag=True, help="Derive a value down to the config keys."
)
@calibration_file
@with_option
@trainer_option
@installed_option
@text_or_json
def command(
    name: str,
    config: str | None,
    gpu: str,
    world_size: int | None,
    gpus_per_node: int | None,
    whole: bool,
    calibration: str,
    trainer: str,
    beside: tuple[str, ...],
    output_format: str,
    overrides: tuple[str, ...],
) -> None:
    """Explain a rule (name or code), a config key, a fact, a claim or a word.

    With CONFIG (- for stdin) it says whether the rule fires there, or derives the
    value. Without it the keys are those of --trainer, of the trainer that
    [tool.fp8tune] in pyproject.toml names, or of all trainers. A section, a category of
    rules, a group of facts or `myths` is listed. A word of the glossary is explained,
    and any other lists the pages that contain it.

    \b
    Examples:
      fp8tune explain fp8-without-compile
      fp8tune explain train.batch_size
      fp8tune explain memory.peak_gib train.toml
    """
    from fp8tune.lint.explain import explain, nearest, search
    from fp8tune.trainers.about import misnamed

    whole |= output_format == "json"
    nodes = gpus_per_node or 0
    if overrides and not config:
        raise Failure("overrides need the config that they change: name it before --")
    known = None
    if config:
        known = named_config(config, gpu, world_size, nodes, overrides, trainer, beside)
    elif trainer and (wrong := misnamed(trainer)):
        raise Failure(wrong)
    else:
        trainer = trainer or _usual()
    if known is None:
        page = explain(name, whose=trainer)
    else:
        from fp8tune.estimate.target import on_its_gpus
        from fp8tune.facts.runs import BadCalibration
        from fp8tune.facts.stored import read

        try:
            page = _with_reason(
                explain(name, known, on_its_gpus, read(calibration), whole=whole), known
            )
        except BadCalibration as error:
            raise Failure(str(error)) from None
    if page is None and _explains_cause(name, output_format):
        return
    if page is None and not (nearest(name) and _is_name(name)):
        page = search(name)
    if page is None:
        near = nearest(name)
        hint = f"; did you mean {near}?" if near else ""
        raise Failure(f"no rule, key, fact or word named {name!r}{hint}")
    if output_format == "json":
        from fp8tune.lint.explain.text import data

        click.echo(data(page))
        return
    _print(page, whole=whole)


def _with_reason(page: Page | None, config: Config) -> Page | None:
    """Add to the page of a fact without a value the reason that estimate gives."""
    from fp8tune.estimate.target import on_its_gpus
    from fp8tune.estimate.whole import why_unknown
    from fp8tune.facts import FACTS
    from fp8tune.lint.explain.fact import FactPage

    if not isinstance(page, FactPage) or page.name not in FACTS:
        return page
    if page.derivation is None or page.derivation.known:
        return page
    return page._replace(unknown=why_unknown(page.name, on_its_gpus(config).config))


def _usual() -> str:
    """Return the trainer of the project's settings, ``""`` if they name none."""
    import os

    from fp8tune.config.settings import BadSettings, settings_for

    try:
        return settings_for(os.getcwd()).trainer
    except BadSettings as error:
        raise Failure(str(error)) from None


def _print(page: Page, *, whole: bool) -> None:
    """Print a page as text; if a derivation is shortened, say how to see all of it."""
    from fp8tune.lint.explain.derivation import is_cut
    from fp8tune.lint.explain.fact import FactPage
    from fp8tune.lint.explain.text import text
    from fp8tune.lint.show import wants_colour

    click.echo(text(page, colour=wants_colour(sys.stdout)), color=True)
    value = page.derivation if isinstance(page, FactPage) else None
    if value and not whole and is_cut(value):
        click.echo("\n--all derives each value down to the lines of the config.")


def _explains_cause(name: str, output_format: str) -> bool:
    """Print the page of a cause of failed runs; return whether there is one."""
    from fp8tune.lint.show import wants_colour
    from fp8tune.verify import cause_page
    from fp8tune.verify.cause import causes

    cause = causes().get(name)
    if cause is None:
        return False
    if output_format == "json":
        click.echo(cause_page.data(cause))
    else:
        shown = cause_page.text(cause, colour=wants_colour(sys.stdout))
        click.echo(shown, color=True)
    return True


def _is_name(word: str) -> bool:
    """Return whether a word looks like a name, even if misspelt: `train.seqlen`."""
    return any(mark in word for mark in ".-_")
