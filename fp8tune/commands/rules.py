"""``fp8tune rules``: list the rules, and run the examples of a folder of rules."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator

import click

from fp8tune import completion
from fp8tune.cli import Choice, Failure, Group, named_trainer, text_or_json
from fp8tune.lint.rules import CATEGORIES, Rule

WIDTH = 100


class _Rules(Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; for another word, say what lists and shows rules."""
        try:
            return super().resolve_command(ctx, args)
        except Failure as error:
            if error.message.endswith("?"):
                raise
            hint = "`fp8tune rules` lists the rules, `fp8tune explain NAME` shows one"
            raise Failure(f"{error.message}; {hint}") from None


@click.group(
    "rules",
    cls=_Rules,
    invoke_without_command=True,
    short_help="List the rules, or test your own.",
)
@click.option("--category", type=Choice(CATEGORIES), help="List only this category.")
@click.option(
    "--trainer",
    default="",
    metavar="NAME",
    callback=named_trainer,
    shell_complete=completion.trainers,
    help="List only the rules that apply to this trainer.",
)
@text_or_json
@click.pass_context
def command(
    ctx: click.Context, category: str | None, trainer: str, output_format: str
) -> None:
    """List the rules, or run the examples of your own.

    \b
    Examples:
      fp8tune rules --category slow --trainer torchtitan
      fp8tune rules test lint-rules
    """
    if ctx.invoked_subcommand is not None:
        return
    from fp8tune.lint.builtin import read_builtin

    rules = [rule for rule in read_builtin() if category in (None, rule.category)]
    if trainer:
        from fp8tune.trainers.about import misnamed, trainers

        if wrong := misnamed(trainer):
            raise Failure(wrong)
        ids = trainers()[trainer.partition("==")[0]].among(trainer)
        rules = [rule for rule in rules if any(map(rule.is_for, ids))]
    click.echo(_as_json(rules) if output_format == "json" else _as_text(rules))


@command.command("test")
@click.argument("folder", metavar="DIR")
def test(folder: str) -> int:
    """Run all examples of the rules in DIR. Exit code 1: one is not as expected."""
    import os

    from fp8tune.config.settings import BadSettings, settings_for
    from fp8tune.lint.builtin import read_builtin
    from fp8tune.lint.examples import run_examples
    from fp8tune.lint.packs import read_pack
    from fp8tune.lint.rules import BadRule
    from fp8tune.lint.ruleset import Rules
    from fp8tune.lint.show import count
    from fp8tune.words import plain

    try:
        settings_for(os.getcwd())  # may name a trainer of one's own
        pack = read_pack(folder)
    except (BadRule, BadSettings) as error:
        raise Failure(str(error)) from None
    names = {rule.name for rule in pack}
    others = [rule for rule in read_builtin() if rule.name not in names]
    failures = list(run_examples(pack, Rules([*others, *pack], {})))
    for failure in failures:
        where = (
            f"{failure.rule}, {failure.example}" if failure.example else failure.rule
        )
        click.echo(f"{where}: {plain(failure.reason)}")
    examples = sum(len(rule.bad) + len(rule.good) for rule in pack)
    state = count(len(failures), "failure") if failures else "all as expected"
    what = f"{count(len(pack), 'rule')}, {count(examples, 'example')}"
    click.echo(f"{what}: {state}")
    return int(bool(failures))


def _as_text(rules: list[Rule]) -> str:
    """Return one rule per line; a long summary continues below its column."""
    width = max((len(rule.name) for rule in rules), default=0)
    code = max((len(rule.code) for rule in rules), default=0)
    return "\n".join(line for rule in rules for line in _lines(rule, code, width))


def _lines(rule: Rule, code: int, width: int) -> Iterator[str]:
    head = f"{rule.code:<{code}}  {rule.name:<{width}}  {rule.severity:<7}  "
    yield from textwrap.wrap(
        rule.summary,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )


def _as_json(rules: Iterable[Rule]) -> str:
    """Return the heads of the rules as one object."""
    listed = [
        {
            "name": rule.name,
            "code": rule.code,
            "category": rule.category,
            "severity": rule.severity,
            "confidence": rule.confidence,
            "since": rule.since,
            "trainer": rule.data.get("trainer"),
            "summary": rule.summary,
            "references": rule.references,
        }
        for rule in rules
    ]
    return json.dumps({"version": 1, "rules": listed}, indent=2)
