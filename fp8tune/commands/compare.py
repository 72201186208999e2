"""``fp8tune compare``: two configs side by side."""

from __future__ import annotations

import json

import click

from fp8tune.cli import (
    Failure,
    WithOverrides,
    gpu_option,
    gpus_per_node_option,
    read_config,
    text_or_json,
    trainer_option,
    world_size_option,
)


@click.command("compare", cls=WithOverrides, short_help="Compare two configs.")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@gpu_option
@world_size_option
@gpus_per_node_option
@trainer_option
@text_or_json
def command(
    first: str,
    second: str,
    gpu: str,
    world_size: int | None,
    gpus_per_node: int | None,
    trainer: str,
    output_format: str,
    overrides: tuple[str, ...],
) -> None:
    """Compare two configs: values, predicted memory and speed, learning, findings.

    Defaults count: a key that only one file sets is shown if its value differs from
    the default.

    \b
    Example:
      fp8tune compare train.toml train.tuned.toml
    """
    from fp8tune.estimate.compare import as_json, side, text
    from fp8tune.lint.run import run
    from fp8tune.lint.selection import Problem
    from fp8tune.lint.settings import Options

    size = world_size or 0
    options = Options(gpu=gpu, world_size=size, trainer=trainer, overrides=overrides)
    sides = []
    for path in (first, second):
        config = read_config(path, gpu, size, gpus_per_node or 0, overrides, trainer)
        try:
            found = list(run((path,), options).diagnostics)
        except Problem as error:
            raise Failure(str(error)) from None
        sides.append(side(config, found))
    if output_format == "json":
        click.echo(json.dumps(as_json(*sides), indent=2))
        return
    for line in text(*sides):
        click.echo(line)
