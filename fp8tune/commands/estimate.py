"""``fp8tune estimate``: memory and speed, predicted without a GPU."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import click

from fp8tune import completion
from fp8tune.cli import (
    Failure,
    WithOverrides,
    calibration_file,
    gpus_per_node_option,
    installed_option,
    named_config,
    need,
    text_or_json,
    trainer_option,
    with_option,
)
from fp8tune.extras import SEARCH
from fp8tune.studies import FOLDER, JOURNAL, NoStudy, find

if TYPE_CHECKING:
    from fp8tune.config.reader import Config
    from fp8tune.estimate.grid import Variants
    from fp8tune.facts.runs import Run
    from fp8tune.trials.record import Record

RAN_ON = {
    "gpu": "the GPU that it ran on: name it with --gpu",
    "world_size": "the number of GPUs that it ran on: give it with --world-size",
}
"""What a measured run is of, and what to type."""

MAX_RECORDS = 1 << 24
"""Largest study or file of records that is read [bytes]."""
MAX_TABLE = 1000
"""Most predictions of one table."""
POSITIVE = click.FloatRange(0, 1e12, min_open=True)


class Measured(NamedTuple):
    """A measured run of the config: peak [GiB], tokens/s, version of torch."""

    peak_gib: float
    tokens: float
    torch: str


def _sizes(
    ctx: click.Context, param: click.Parameter, value: str
) -> tuple[int | None, ...]:
    """Return the numbers of GPUs asked for, ``(None,)`` if none is given."""
    found = [part for part in value.split(",") if part]
    if not all(part.isdecimal() and 0 < int(part) <= 10**7 for part in found):
        reason = f"{value!r} is not a number of GPUs or a list like 8,16"
        raise click.BadParameter(reason, ctx, param)
    return tuple(int(part) for part in found) or (None,)


@click.command(
    "estimate", cls=WithOverrides, short_help="Predict memory and speed of a config."
)
@click.argument("configs", nargs=-1, required=True, metavar="CONFIG...")
@click.option(
    "--gpu",
    "gpus",
    default="",
    metavar="NAMES",
    shell_complete=completion.gpus,
    help="GPU of the run, e.g. h100. Several, e.g. h100,h200,b200, make a table.",
)
@click.option(
    "--world-size",
    "sizes",
    callback=_sizes,
    default="",
    metavar="N",
    help="Number of GPUs of the run, e.g. 16. Several, e.g. 8,16,64, make a table.",
)
@gpus_per_node_option
@click.option(
    "--measured",
    type=POSITIVE,
    metavar="GIB",
    help="Peak memory per GPU that torch had allocated when CONFIG ran, e.g. 74.1. "
    "It calibrates this estimate and those of similar configs.",
)
@click.option(
    "--measured-speed",
    type=POSITIVE,
    metavar="TOKENS",
    help="Tokens/s over all GPUs when CONFIG ran, e.g. 38983.",
)
@click.option(
    "--measured-torch",
    default="",
    metavar="VERSION",
    help="Version of torch of the measured run, e.g. 2.9.1.",
)
@click.option(
    "--study",
    default="",
    metavar="DIR",
    help="Calibrate with the trials of a search, e.g. .fp8tune/NAME.",
)
@calibration_file
@with_option
@trainer_option
@installed_option
@text_or_json
def command(
    configs: tuple[str, ...],
    gpus: str,
    sizes: tuple[int | None, ...],
    gpus_per_node: int | None,
    measured: float | None,
    measured_speed: float | None,
    measured_torch: str,
    study: str,
    calibration: str,
    output_format: str,
    trainer: str,
    beside: tuple[str, ...],
    overrides: tuple[str, ...],
) -> int:
    """Predict memory and speed of CONFIG (- for stdin), over batch, AC and precision.

    Several configs, GPUs or numbers of GPUs make one table.

    Every figure has the range that measured runs justify. `fp8tune explain
    memory.peak_gib CONFIG` derives one. Exit code 1: CONFIG cannot run, or does not
    fit; of a table, no row can run and fit.

    \b
    Examples:
      fp8tune estimate train.toml
      fp8tune estimate train.toml --gpu h200 --world-size 16
      fp8tune estimate configs/*.toml --gpu h100,h200 --world-size 8,16,64
      fp8tune estimate train.toml -- --train.batch_size=64
      fp8tune estimate train.toml --measured 74.1 --measured-speed 38983
    """
    if measured_torch and not (measured or measured_speed):
        raise Failure("--measured-torch needs --measured or --measured-speed")
    if len(configs) > 1 and not beside and "-" not in configs:
        configs, beside = _joined(configs, trainer)
    names = [name for name in gpus.split(",") if name] or [""]
    if len(configs) * len(names) * len(sizes) > 1:
        if measured or measured_speed or study:
            raise Failure("a measured run is of one config, one GPU and one world size")
        targets = list(product(configs, names, sizes))
        nodes = gpus_per_node or 0
        read_one = partial(_config, nodes, trainer, overrides, beside)
        return _table(targets, read_one, calibration, output_format)
    (config,), (gpu,), (world_size,) = configs, names, sizes
    named = gpus_per_node or 0, trainer, overrides, beside
    known = _config(*named, config, gpu, world_size)
    measured_run = Measured(measured or 0.0, measured_speed or 0.0, measured_torch)
    return _one(config, known, measured_run, study, calibration, output_format)


def _joined(
    configs: tuple[str, ...], trainer: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the config that leads the others, and these; else all and none."""
    from fp8tune.config.companions import one_job
    from fp8tune.config.discover import Found

    job = one_job([Found(path, True) for path in configs], trainer)
    parts = [file for file in job[1:] if not file.trainer]  # configs by themselves
    if not job or parts or len(job[0].beside) + 1 < len(configs):
        return configs, ()
    click.echo(f"fp8tune: {job[0].note.replace('checked', 'read')}", err=True)
    return (job[0].path,), job[0].beside


def _config(
    gpus_per_node: int,
    trainer: str,
    overrides: tuple[str, ...],
    beside: tuple[str, ...],
    path: str,
    gpu: str,
    world_size: int | None,
) -> Config:
    """Read a config with the options that all configs of the command have."""
    target = gpu, world_size, gpus_per_node
    return named_config(path, *target, overrides, trainer, beside)


def _one(
    path: str,
    known: Config,
    measured: Measured,
    study: str,
    calibration: str,
    output_format: str,
) -> int:
    """Print the estimate of one config; return 1 if it cannot run or does not fit."""
    from fp8tune.estimate.grid import Variants
    from fp8tune.estimate.refusals import placed
    from fp8tune.estimate.show import not_covered, text
    from fp8tune.estimate.target import titled
    from fp8tune.estimate.whole import as_json, estimate, uncovered
    from fp8tune.facts.runs import BadCalibration
    from fp8tune.facts.stored import add, read

    variants = Variants(known)
    try:
        new = _typed(variants, measured, calibration)
        if study:
            new += _trials(variants, study)
        if new:
            add(calibration, new)
        variants.runs = read(calibration)
    except BadCalibration as error:
        raise Failure(str(error)) from None
    found = estimate(variants, titled(known))
    if found.said.refused:
        refused = placed(found.said.refused, known)
        found = found._replace(said=found.said._replace(refused=refused))
    if found.fp8_off:
        found = found._replace(fp8_off=placed(found.fp8_off, known))
    if why := uncovered(known.trainer):
        found = found._replace(said=found.said._replace(missing={}, reasons=[why]))
    if output_format == "json":
        click.echo(json.dumps(as_json(found), indent=2))
    else:
        for line in not_covered(path, found, why) if why else text(path, found):
            click.echo(line)
    return int(bool(found.said.refused) or found.said.too_much)


def _table(
    targets: list[tuple[str, str, int | None]],
    read_one: Callable[[str, str, int | None], Config],
    calibration: str,
    output_format: str,
) -> int:
    """Print a table of each config on each target; return the exit code."""
    from fp8tune.estimate.compare import side
    from fp8tune.estimate.overview import Line, as_json, text
    from fp8tune.facts.runs import BadCalibration
    from fp8tune.facts.stored import read

    if len(targets) > MAX_TABLE:
        raise Failure(f"{len(targets)} predictions; a table has at most {MAX_TABLE}")
    try:
        runs = read(calibration)
    except BadCalibration as error:
        raise Failure(str(error)) from None
    lines = []
    for path, gpu, size in targets:
        known = read_one(path, gpu, size)
        one = side(known, runs=runs)
        target = one.variants.target
        lines.append(Line(path, target.gpu, target.world_size, one))
    if output_format == "json":
        click.echo(json.dumps(as_json(lines), indent=2))
    else:
        for line in text(lines):
            click.echo(line)
    said = [line.side.predicted for line in lines]
    return int(all(one.refused or one.too_much for one in said))


def _typed(variants: Variants, measured: Measured, calibration: str) -> list[Run]:
    """Return what the user has measured (``--measured``), to calibrate with."""
    from fp8tune.estimate.typed import doubt, typed
    from fp8tune.job import Unknown

    peak_gib, tokens, version = measured
    versions = {"torch": version} if version else {}
    voids = [one.message for one in variants.refused if one.voids]
    if voids and (peak_gib or tokens):
        raise Failure(
            f"this config cannot run, so it cannot have been measured: {voids[0]}"
        )
    with contextlib.suppress(Unknown):
        most = variants.job["gpu.memory_limit_gib"]
        if peak_gib > most:
            reason = f"more than the GPU has, {most:.1f} GiB"
            raise Failure(f"--measured {peak_gib:g}: {reason}")
    try:
        runs = typed(variants.job, peak_gib, tokens, versions)
        warning = doubt(runs, variants.job)
    except Unknown as error:
        name = str(error.args[0])
        if name in RAN_ON:
            raise Failure(f"a measurement needs {RAN_ON[name]}") from None
        reason = f"without `{name}` there is no estimate, so it cannot be corrected"
        raise Failure(reason) from None
    if warning:
        back = f"to undo this, remove its line from {calibration}"
        click.echo(f"fp8tune: warning: {warning}; {back}", err=True)
    return runs


def _trials(variants: Variants, folder: str) -> list[Run]:
    """Return a study's trials of variants of the config, to calibrate with."""
    from fp8tune.search.calibrate import measured

    path, records = _records(folder)
    found = measured(variants.job, records)
    if not found:
        many = f"{len(records)} trial{'s' * (len(records) != 1)}"
        click.echo(
            f"fp8tune: warning: none of {many} in {path} measured this config's "
            "memory or speed on this GPU: the estimate does not change",
            err=True,
        )
    return found


def _records(folder: str) -> tuple[str, list[Record]]:
    """Return the folder and the records of a study, or of its export."""
    from fp8tune.trials.record import BadRecord, parse_all

    try:
        folder = find(folder, FOLDER)
    except NoStudy as error:
        raise Failure(f"--study: {error}") from None
    if os.path.lexists(os.path.join(folder, JOURNAL)):
        return _of_study(folder)
    path = os.path.join(folder, "trials.jsonl")
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Failure(f"{path}: not a regular file")
        if status.st_size > MAX_RECORDS:
            raise Failure(f"{path}: larger than {MAX_RECORDS >> 20} MiB")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return path, list(parse_all(iter(file)))
    except BadRecord as error:
        raise Failure(f"{path}: {error}") from None


def _of_study(folder: str) -> tuple[str, list[Record]]:
    need("--study", *SEARCH)
    from fp8tune.search.saved_study import look
    from fp8tune.search.storage import BadStudy

    try:
        _, trials = look(folder, most=MAX_RECORDS)
    except BadStudy as error:
        raise Failure(str(error)) from None
    return folder, [trial.record for trial in trials]
