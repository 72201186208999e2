"""``fp8tune lint``: check train configs without a GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

import click

from fp8tune.cli import Failure

if TYPE_CHECKING:
    from fp8tune.lint.run import Options, Result

LEVELS = ("error", "warning", "note")


@click.command("lint")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@click.option("--gpu", help="GPU that the run is for, e.g. h100 or h200.")
@click.option("--world-size", type=click.IntRange(1, 10**7), help="GPUs of the run.")
@click.option("--trainer", help="Take every file for a config of this trainer.")
@click.option(
    "--output-format",
    type=click.Choice(["full", "concise", "json"]),
    default="full",
    show_default=True,
)
@click.option(
    "--fail-on",
    type=click.Choice([*LEVELS, "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 on a finding of this level or above.",
)
@click.option(
    "--select", multiple=True, help="Only these rules (name, code, category)."
)
@click.option("--ignore", multiple=True, help="Not these rules (name, code, category).")
@click.option(
    "--rules", "packs", multiple=True, help="A folder with rules of your own."
)
@click.option("--fix", is_flag=True, help="Mend what can be mended safely.")
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="Mend also what changes the run (each finding says how); implies --fix.",
)
@click.option("--diff", is_flag=True, help="Show what --fix would do; write nothing.")
@click.option("--stdin-filename", default="-", help="Name of what is read from `-`.")
@click.option("--force-exclude", is_flag=True, help="Exclude also files named here.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but the findings.")
def command(
    paths: tuple[str, ...],
    gpu: str | None,
    world_size: int | None,
    trainer: str | None,
    output_format: str,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    packs: tuple[str, ...],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    stdin_filename: str,
    force_exclude: bool,
    quiet: bool,
) -> int:
    """Check train configs: files, folders (searched for *.toml), or - for stdin.

    Exit code 0: nothing at or above --fail-on; 1: something; 2: fp8tune could not
    do its work.
    """
    import gc

    gc.disable()  # the process is short, and there are few cycles to collect
    from fp8tune.lint.run import Options, Problem, run

    options = Options(
        gpu=gpu or "",
        world_size=world_size or 0,
        trainer=trainer or "",
        select=_split(select),
        ignore=_split(ignore),
        packs=packs,
        stdin_filename=stdin_filename,
        force_exclude=force_exclude,
        fix=fix or unsafe_fixes or diff,
        unsafe_fixes=unsafe_fixes,
        diff=diff,
    )
    try:
        result = run(paths or (".",), options)
    except Problem as error:
        raise Failure(str(error)) from None
    try:
        _say(result, options, output_format, quiet=quiet)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has gone: main() finds it again
        return 2
    if result.unread:
        return 2
    levels = LEVELS[: LEVELS.index(fail_on) + 1] if fail_on in LEVELS else ()
    return int(any(d.severity in levels for d in result.diagnostics))


def _say(result: Result, options: Options, output_format: str, *, quiet: bool) -> None:
    """Show findings, or patches; what was read from stdin goes to stdout mended."""
    from fp8tune.lint.show import show

    out: TextIO = sys.stdout
    if options.diff:
        from fp8tune.lint.tally import write_patches

        write_patches(result, out)
    else:
        for report in result.reports:
            if report.text:
                sys.stdout.buffer.write(report.text)
                out = sys.stderr
        show(result, output_format, quiet=quiet, out=out, err=sys.stderr)
    if not quiet and (options.fix or any(found.fix for found in result.diagnostics)):
        from fp8tune.lint.tally import fix_lines

        plain_text = output_format == "full" and not options.diff
        for line in fix_lines(result, options):
            print(line, file=out if plain_text else sys.stderr)


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)
