"""``fp8tune verify``: did FP8 really run, and why did a run fail."""

from __future__ import annotations

import json
import sys

import click

from fp8tune.cli import (
    Choice,
    Failure,
    gpu_option,
    gpus_per_node_option,
    installed_option,
    named_config,
    trainer_option,
    world_size_option,
)


@click.command("verify", short_help="Check whether FP8 really ran in a training run.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--config",
    default="",
    metavar="FILE",
    help="Train config of the run: what it asked for, and what to change.",
)
@gpu_option
@world_size_option
@gpus_per_node_option
@trainer_option
@installed_option
@click.option(
    "--follow",
    "follows",
    is_flag=True,
    help="Watch a growing log; end as soon as the answer is known.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, 1e9, min_open=True),
    metavar="SECONDS",
    help="With --follow: end after this time with what is known.",
)
@click.option("--diff", is_flag=True, help="Show what the fixes would change.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes to the config.")
@click.option("--unsafe-fixes", is_flag=True, help="Also apply or show unsafe fixes.")
@click.option(
    "--output-format",
    type=Choice(["full", "json"]),
    default="full",
    show_default=True,
    help="full for people, json for programs.",
)
def command(
    paths: tuple[str, ...],
    config: str,
    gpu: str,
    world_size: int | None,
    gpus_per_node: int | None,
    trainer: str,
    follows: bool,
    timeout: float | None,
    diff: bool,
    fix: bool,
    unsafe_fixes: bool,
    output_format: str,
) -> int:
    """Check whether FP8 really ran: PATH is a log, a profiler trace or a run's folder.

    Several runs in a folder get a verdict each; the worst decides.

    Exit code 0: verified. 1: not FP8, only partly, or the run failed; the cause is
    named. 3: cannot tell, and what would settle it. 2: nothing could be read.

    \b
    Examples:
      fp8tune verify train.log trace.json --config train.toml
      fp8tune verify runs/2026-11-23
      srun python train.py train.toml 2>&1 | tee train.log
      fp8tune verify train.log --config train.toml
      fp8tune verify train.log --follow
    """
    from fp8tune.verify.answer import as_json, text
    from fp8tune.verify.inputs import NoRun
    from fp8tune.verify.run import changed, follow, verify

    if (diff or fix or unsafe_fixes) and not config:
        raise Failure("a fix needs the config that it changes: --config train.toml")
    known = None
    if config:
        size = gpus_per_node or 0
        known = named_config(config, gpu, world_size, size, (), trainer)
    try:
        if follows:
            answer = follow(paths, known, trainer, timeout)
        else:
            answer = verify(paths, known, trainer)
    except NoRun as error:
        raise Failure(str(error)) from None
    if output_format == "json":
        click.echo(json.dumps(as_json(answer), indent=2))
    else:
        for line in text(answer):
            click.echo(line)
    if known and (diff or fix):
        for line in changed(
            answer, known, to_write=fix and not diff, unsafe=unsafe_fixes
        ):
            click.echo(line, file=sys.stderr if output_format == "json" else None)
    return answer.exit_code
