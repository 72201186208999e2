"""``fp8tune estimate``: memory and speed, predicted without a GPU."""

from __future__ import annotations

import json

import click

from fp8tune.cli import Choice, Failure, read_config


@click.command("estimate")
@click.argument("config", metavar="CONFIG")
@click.option("--gpu", default="", help="GPU that the run is for, e.g. h100 or h200.")
@click.option("--world-size", type=click.IntRange(1, 10**7), help="GPUs of the run.")
@click.option(
    "--output-format", type=Choice(["text", "json"]), default="text", show_default=True
)
def command(config: str, gpu: str, world_size: int | None, output_format: str) -> None:
    """Predict memory and speed of CONFIG (- for stdin), over batch, AC and precision.

    Every figure comes with the range that measured runs justify. `fp8tune explain
    memory.peak_gib CONFIG` shows how one comes about.
    """
    from fp8tune.estimate.grid import Variants, grid, savings, start
    from fp8tune.estimate.predict import gemms, predict
    from fp8tune.estimate.show import as_json, text
    from fp8tune.job import Unknown

    known = read_config(config, gpu, world_size)
    loaded = known.trainer.load(known.document.values)
    variants = Variants(known.trainer, loaded, known.job.target)
    cells = grid(variants)
    try:
        precision = variants.job["precision"]
    except Unknown:
        raise Failure(f"{config}: `precision` is not one of the trainer's") from None
    best, freed = start(cells, precision), savings(variants)
    said, rows = predict(variants.job), gemms(variants.job)
    if output_format == "json":
        click.echo(json.dumps(as_json(said, cells, rows, best, freed), indent=2))
        return
    for line in text(config, said, cells, rows, best, freed):
        click.echo(line)
