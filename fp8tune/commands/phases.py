"""``fp8tune phases``: bf16 at the beginning and end of an FP8 run."""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING

import click

from fp8tune.cli import (
    Failure,
    WithOverrides,
    gpu_option,
    named_config,
    need,
    trainer_option,
    world_size_option,
)

if TYPE_CHECKING:
    from fp8tune.phases.plan import PhasedRun

GPUS = 8
"""GPUs that one machine has by default."""


@click.command(
    "phases", cls=WithOverrides, short_help="Split an FP8 run into bf16 and FP8 phases."
)
@click.argument("config")
@click.option(
    "--bf16-warmup",
    default="",
    metavar="N",
    help="Steps in bf16 before FP8, e.g. 2000, or a share of the run, e.g. 5%.",
)
@click.option(
    "--bf16-cooldown",
    default="",
    metavar="N",
    help="Steps in bf16 after FP8, e.g. 5000, or a share of the run, e.g. 5%.",
)
@click.option(
    "--launcher",
    default="",
    metavar="COMMAND",
    help="What starts the trainer's program, e.g. 'torchrun --nproc-per-node 8' or "
    "'srun python'.  [default: torchrun on all GPUs of this machine]",
)
@click.option(
    "--output-dir",
    default="",
    metavar="DIR",
    help="Folder for the files.  [default: that of CONFIG]",
)
@click.option(
    "--plot",
    default="",
    metavar="FILE",
    help="Also draw learning rate and precision over the steps, as .png or .svg.",
)
@gpu_option
@world_size_option
@trainer_option
def command(
    config: str,
    bf16_warmup: str,
    bf16_cooldown: str,
    launcher: str,
    output_dir: str,
    plot: str,
    gpu: str,
    world_size: int | None,
    trainer: str,
    overrides: tuple[str, ...],
) -> None:
    """Split CONFIG's run into phases: bf16 warm-up, FP8, bf16 cool-down.

    Writes a config for each phase and CONFIG.phases.sh, which runs them one after the
    other and can be started again after an interruption. Steps, learning rate and data
    are those of the unbroken run: the learning rate is compared at every step.

    \b
    Examples:
      fp8tune phases train.toml --bf16-warmup 2000 --bf16-cooldown 5000
      fp8tune phases train.toml --bf16-cooldown 5% --launcher 'srun python'
    """
    from fp8tune.phases import CannotPlan
    from fp8tune.phases.plan import plan
    from fp8tune.phases.script import scripts
    from fp8tune.phases.write import phase_configs, summary

    _check_files(config, plot)
    known = named_config(config, gpu, world_size or 0, 0, overrides, trainer)
    folder = _folder(output_dir or os.path.dirname(config), config)
    stem = os.path.basename(config).removesuffix(".toml")
    base = os.path.join(folder, f"{stem}.phases")
    try:
        found = plan(known, bf16_warmup, bf16_cooldown)
        configs = list(phase_configs(found, folder))
    except CannotPlan as error:
        raise Failure(str(error)) from None
    words = _launcher(launcher, known.job.find("world_size"))
    files = {each.path: each.data for each in configs}
    _write(files | scripts(found, configs, words, base), config)
    for line in summary(found, configs):
        click.echo(line)
    if plot:
        _draw(found, plot)
        click.echo(f"drawn: {plot}")
    click.echo(f"run them: bash {shlex.quote(f'{base}.sh')}")


def _check_files(config: str, plot: str) -> None:
    """Fail if the files that are asked for cannot be written."""
    if config == "-":
        raise Failure("the files are named after CONFIG: give a file, not -")
    if not plot:
        return
    if not plot.endswith((".png", ".svg")):
        raise Failure(f"--plot {plot}: the file must end with .png or .svg")
    need("phases --plot", "matplotlib")
    if os.path.lexists(plot):
        raise Failure(f"--plot {plot}: the file exists")


def _draw(found: PhasedRun, plot: str) -> None:
    from fp8tune.phases.plot import draw

    try:
        draw(found, plot)
    except OSError as error:
        raise Failure(f"--plot {plot}: {error.strerror}") from None


def _folder(path: str, config: str) -> str:
    """Return the folder of the files; no path in it starts with a dash."""
    if path and not os.path.isdir(path):
        raise Failure(f"--output-dir {path}: no such folder")
    if (path or os.path.basename(config)).startswith("-"):
        return os.path.join(".", path)
    return path


def _launcher(given: str, world_size: int | None) -> list[str]:
    """Return the words that start the trainer's program."""
    if given:
        try:
            words = shlex.split(given)
        except ValueError as error:
            raise Failure(f"--launcher {given!r}: {error}") from None
        if words:
            return words
        raise Failure("--launcher is empty")
    if world_size and world_size > GPUS:
        reason = f"a run of {world_size} GPUs needs a launcher for several machines"
        raise Failure(f"{reason}: give --launcher, e.g. --launcher 'srun python'")
    return ["torchrun", "--nproc-per-node", str(world_size or "gpu")]


def _write(files: dict[str, bytes], like: str) -> None:
    """Write all files, or none if one of them is not ours."""
    from fp8tune import atomic

    for path in files:
        if os.path.isdir(path):
            raise Failure(f"{path}: Is a directory")
        if os.path.lexists(path) and not _is_ours(path):
            raise Failure(
                f"{path} exists and phases did not write it: move it, or give "
                "--output-dir"
            )
    try:
        for path, data in files.items():
            atomic.write(path, data, like=like)
            if path.endswith(".sh"):
                mode = os.stat(path).st_mode
                os.chmod(path, mode | stat.S_IXUSR | (mode & 0o044) >> 2)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from None


def _is_ours(path: str) -> bool:
    """Return whether the beginning of a file says that phases wrote it."""
    try:
        with open(path, "rb") as file:
            head = file.read(400)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    return b"fp8tune phases" in head
