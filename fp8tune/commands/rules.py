"""``fp8tune rules``: list the rules, and run the examples of a folder of rules."""

from __future__ import annotations

import click

from fp8tune.cli import Choice, Failure, Group, text_or_json
from fp8tune.lint.rules import CATEGORIES


@click.group(
    "rules",
    cls=Group,
    invoke_without_command=True,
    short_help="List the rules, or test your own.",
)
@click.option("--category", type=Choice(CATEGORIES), help="List only this category.")
@text_or_json
@click.pass_context
def command(ctx: click.Context, category: str | None, output_format: str) -> None:
    """List the rules, or run the examples of your own.

    \b
    Examples:
      fp8tune rules --category slow
      fp8tune rules test lint-rules
    """
    if ctx.invoked_subcommand is not None:
        return
    from fp8tune.lint.builtin import read_builtin
    from fp8tune.lint.listing import as_json, as_text

    rules = [rule for rule in read_builtin() if category in (None, rule.category)]
    click.echo(as_json(rules) if output_format == "json" else as_text(rules))


@command.command("test")
@click.argument("folder", metavar="DIR")
def test(folder: str) -> int:
    """Run all examples of the rules in DIR. Exit code 1: one is not as expected."""
    import os

    from fp8tune.lint.builtin import read_builtin
    from fp8tune.lint.examples import run_examples
    from fp8tune.lint.packs import read_pack
    from fp8tune.lint.rules import BadRule
    from fp8tune.lint.ruleset import Rules
    from fp8tune.lint.settings import BadSettings, settings_for
    from fp8tune.lint.show import count
    from fp8tune.lint.wording import plain

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
