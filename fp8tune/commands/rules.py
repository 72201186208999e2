"""``fp8tune rules``: list the rules, or run a pack's own examples."""

from __future__ import annotations

import json

import click

from fp8tune.cli import Failure


@click.group("rules", invoke_without_command=True)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
)
@click.pass_context
def command(ctx: click.Context, output_format: str) -> None:
    """List all rules; `rules test DIR` runs a rule pack's examples."""
    if ctx.invoked_subcommand is not None:
        return
    from fp8tune.lint.rules import read_builtin

    rules = read_builtin()
    if output_format == "json":
        listed = [
            {
                "name": rule.name,
                "code": rule.code,
                "category": rule.category,
                "severity": rule.severity,
                "confidence": rule.confidence,
                "status": rule.status,
                "since": rule.since,
                "trainer": rule.trainer or None,
                "summary": rule.summary,
                "references": rule.references,
            }
            for rule in rules
        ]
        click.echo(json.dumps({"version": 1, "rules": listed}, indent=2))
        return
    width = max(len(rule.name) for rule in rules)
    for rule in rules:
        head = f"{rule.code}  {rule.name:<{width}}  {rule.severity:<7}"
        click.echo(f"{head}  {rule.summary}")


@command.command("test")
@click.argument("folder", metavar="DIR")
def test(folder: str) -> int:
    """Run every example of the rules below DIR."""
    from fp8tune.lint.engine import Rules
    from fp8tune.lint.examples import run_examples
    from fp8tune.lint.packs import read_pack
    from fp8tune.lint.rules import BadRule, read_builtin
    from fp8tune.lint.show import count
    from fp8tune.lint.wording import plain

    try:
        pack = read_pack(folder)
    except BadRule as error:
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
