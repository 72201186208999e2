"""``fp8tune explain``: read the page of a rule, a config key or a fact."""

from __future__ import annotations

import click

from fp8tune.cli import Failure


@click.command("explain")
@click.argument("name", metavar="RULE|KEY|FACT")
def command(name: str) -> None:
    """Explain a rule (name or code), a config key, or a fact."""
    from fp8tune.lint.explain import explain

    page = explain(name)
    if page is None:
        from fp8tune.lint.explain import nearest

        near = nearest(name)
        hint = f"; did you mean {near}?" if near else ""
        raise Failure(f"no rule, key or fact named {name!r}{hint}")
    click.echo(page)
