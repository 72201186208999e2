"""``fp8tune explain``: read the page of a rule, a config key, a fact or a myth."""

from __future__ import annotations

import sys

import click

from fp8tune.cli import Failure, calibration_file, read_config, text_or_json


@click.command("explain")
@click.argument("name", metavar="RULE|KEY|FACT")
@click.argument("config", required=False)
@click.option("--gpu", help="GPU that the run is for, e.g. h100 or h200.")
@click.option("--world-size", type=click.IntRange(1, 10**7), help="GPUs of the run.")
@click.option(
    "--gpus-per-node",
    type=click.IntRange(1, 10**7),
    help="GPUs of one machine, 8 if not said.",
)
@calibration_file
@text_or_json
def command(
    name: str,
    config: str | None,
    gpu: str | None,
    world_size: int | None,
    gpus_per_node: int | None,
    calibration: str,
    output_format: str,
) -> None:
    """Explain a rule (name or code), a config key, a fact or a myth.

    With a CONFIG (- for stdin): what the rule says of it, or how the value comes about,
    on the GPUs and by the measured runs that `fp8tune estimate` takes. A section, a
    category of rules, a group of facts and `myths` are listed.
    """
    from fp8tune.lint.explain import explain, nearest

    nodes = gpus_per_node or 0
    known = read_config(config, gpu, world_size, nodes) if config else None
    if known is None:
        page = explain(name)
    else:
        from fp8tune.estimate.target import on_its_gpus
        from fp8tune.facts.runs import BadCalibration
        from fp8tune.facts.stored import read

        try:
            page = explain(name, known, on_its_gpus, read(calibration))
        except BadCalibration as error:
            raise Failure(str(error)) from None
    if page is None:
        near = nearest(name)
        hint = f"; did you mean {near}?" if near else ""
        raise Failure(f"no rule, key or fact named {name!r}{hint}")
    if output_format == "json":
        from fp8tune.lint.explain.data import data

        click.echo(data(page))
        return
    from fp8tune.lint.explain.text import text
    from fp8tune.lint.show import wants_colour

    click.echo(text(page, colour=wants_colour(sys.stdout)), color=True)
