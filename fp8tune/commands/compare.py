"""``fp8tune compare``: two configs, or runs in FP8 and bf16."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from fp8tune.cli import (
    Choice,
    Failure,
    WithOverrides,
    gpu_option,
    gpus_per_node_option,
    installed_option,
    named_config,
    text_or_json,
    trainer_option,
    with_option,
    world_size_option,
)
from fp8tune.streams import width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fp8tune.verify.gap import Comparison
    from fp8tune.verify.runs import Run


@click.command(
    "compare",
    cls=WithOverrides,
    short_help="Compare two configs, or FP8 and bf16 runs.",
)
@click.argument("paths", metavar="PATH PATH...", nargs=-1, required=True)
@click.option(
    "--label",
    "labels",
    multiple=True,
    type=Choice(["fp8", "bf16"]),
    help="Precision of each run, in order, e.g. --label fp8 --label bf16; by default "
    "the first is FP8.",
)
@click.option("--loss-tag", default="", metavar="NAME", help="Tag of the loss.")
@click.option(
    "--seed-spread",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Standard deviation of the loss between seeds, if you know it.",
)
@click.option(
    "--html", default="", metavar="FILE", help="Write a page with the curves, as .html."
)
@gpu_option
@world_size_option
@gpus_per_node_option
@trainer_option
@with_option
@installed_option
@text_or_json
def command(
    paths: tuple[str, ...],
    labels: tuple[str, ...],
    loss_tag: str,
    seed_spread: float | None,
    html: str,
    gpu: str,
    world_size: int | None,
    gpus_per_node: int | None,
    trainer: str,
    beside: tuple[str, ...],
    output_format: str,
    overrides: tuple[str, ...],
) -> int:
    """Compare two configs, or training runs in FP8 and in bf16.

    Two configs: values, predicted memory and speed, learning, findings.
    Defaults count: a key that only one file sets is shown if its value differs from
    the default. Configs of two trainers are compared by what their keys mean, such as
    the micro-batch, and by the other keys that they set.

    Runs: whether FP8's loss follows bf16's. The first is FP8, the others are bf16 with
    other seeds. A run is a log, a TensorBoard event file, a CSV file, or a folder with
    one of them. Exit code 0: the same or better; 1: FP8 is worse or diverged; 3:
    inconclusive.

    \b
    Examples:
      fp8tune compare train.toml train.tuned.toml
      fp8tune compare fp8.log bf16-seed1.log bf16-seed2.log bf16-seed3.log
    """
    configs = [path for path in paths if _is_config(path)]
    if configs and len(configs) < len(paths):
        other = next(path for path in paths if path not in configs)
        raise Failure(
            f"{configs[0]} is a config and {other} is not: compare two configs or runs"
        )
    if len(paths) < 2 or (configs and len(paths) > 2):
        wanted = (
            "two configs" if configs else "an FP8 run and a bf16 run, or two configs"
        )
        raise Failure(f"compare takes {wanted}")
    if html and not html.casefold().endswith((".html", ".htm")):
        raise Failure(f"--html {html}: the file must end with .html")
    if not configs:
        known = None if seed_spread is None else seed_spread / 100
        result = _compare_runs(paths, labels, loss_tag, known)
        return _print_runs(result, output_format, html)
    if labels or loss_tag or html or seed_spread is not None:
        raise Failure("--label, --loss-tag, --seed-spread and --html are for runs")
    _compare_configs(
        paths,
        gpu,
        world_size or 0,
        gpus_per_node or 0,
        trainer,
        beside,
        overrides,
        output_format,
    )
    return 0


def _is_config(path: str) -> bool:
    """Whether a file is a config by its name; a ``.json`` may be a run's too."""
    from fp8tune.formats import ENDINGS

    ending = path[max(path.rfind("."), 0) :].lower()
    return ENDINGS.get(ending) in ("toml", "yaml", "bash")


def _compare_configs(
    paths: Sequence[str],
    gpu: str,
    size: int,
    gpus_per_node: int,
    trainer: str,
    beside: tuple[str, ...],
    overrides: tuple[str, ...],
    output_format: str,
) -> None:
    from fp8tune.config.settings import Options
    from fp8tune.estimate.compare import as_json, side, text
    from fp8tune.lint.run import run
    from fp8tune.lint.selection import Problem

    options = Options(
        gpu=gpu, world_size=size, trainer=trainer, beside=beside, overrides=overrides
    )
    sides = []
    for path in paths:
        config = named_config(
            path, gpu, size, gpus_per_node, overrides, trainer, beside
        )
        try:
            found = list(run((path,), options).diagnostics)
        except Problem as error:
            raise Failure(str(error)) from None
        sides.append(side(config, found))
    if output_format == "json":
        click.echo(json.dumps(as_json(*sides), indent=2))
        return
    first, second = sides
    for line in text(first, second, width_of(sys.stdout)):
        click.echo(line)


def _compare_runs(
    paths: Sequence[str],
    labels: Sequence[str],
    loss_tag: str,
    seed_spread: float | None,
) -> Comparison:
    """Read and compare runs; raises ``Failure``."""
    from fp8tune.verify.gap import compare
    from fp8tune.verify.runs import CannotRead, read

    labels = labels or ("fp8", *["bf16"] * (len(paths) - 1))
    if len(labels) != len(paths) or len(set(labels)) < 2:
        raise Failure("--label: one for each run, and both fp8 and bf16")
    sides: dict[str, list[Run]] = {"fp8": [], "bf16": []}
    for path, label in zip(paths, labels, strict=True):
        try:
            sides[label].append(read(path, loss_tag))
        except CannotRead as error:
            raise Failure(str(error)) from None
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}") from None
    return compare(sides["fp8"], sides["bf16"], seed_spread)


def _print_runs(result: Comparison, output_format: str, html: str) -> int:
    from fp8tune.verify.gap_output import EXIT_CODES, as_json, text

    if html:
        _write_page(result, html)
    if output_format == "json":
        click.echo(json.dumps(as_json(result), indent=2, allow_nan=False))
    else:
        for line in text(result, width=width_of(sys.stdout)):
            click.echo(line)
    return EXIT_CODES[result.verdict]


def _write_page(result: Comparison, path: str) -> None:
    from fp8tune.cli import need

    need("--html", "jinja2", "matplotlib", "numpy")
    from fp8tune.report.runs_page import write_page

    try:
        write_page(result, path)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
