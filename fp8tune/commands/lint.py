"""``fp8tune lint``: check train configs without a GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from fp8tune import completion
from fp8tune.cli import (
    Choice,
    Failure,
    WithOverrides,
    gpu_option,
    installed_option,
    named_trainer,
    with_option,
    world_size_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fp8tune.config.settings import Options
    from fp8tune.lint.show import Style

LEVELS = ("error", "warning", "note", "never")
FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")


@click.command("lint", cls=WithOverrides, short_help="Check train configs.")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@gpu_option
@world_size_option
@click.option(
    "--trainer",
    default="",
    metavar="NAME",
    callback=named_trainer,
    shell_complete=completion.trainers,
    help="Check every file as a config of this trainer: NAME, NAME==VERSION, or the "
    "path of a file that describes one.",
)
@installed_option
@click.option(
    "--output-format",
    type=Choice(FORMATS),
    help="How findings are printed; concise is one line each. By default full, or "
    "github under GitHub Actions.",
)
@click.option(
    "--output-file", default="", metavar="FILE", help="Write the findings to FILE."
)
@click.option(
    "--statistics", is_flag=True, help="Add a table of findings and files per rule."
)
@click.option(
    "--fail-on",
    type=Choice(LEVELS),
    help="Exit with 1 if there is a finding of this level (by default error) or above.",
)
@click.option(
    "--select",
    multiple=True,
    shell_complete=completion.rules,
    metavar="RULES",
    help="Check only these rules: names, codes or categories, e.g. slow,FP8101. "
    "Repeatable.",
)
@click.option(
    "--ignore",
    multiple=True,
    shell_complete=completion.rules,
    metavar="RULES",
    help="Do not check these rules, e.g. fp8-without-compile. Repeatable.",
)
@click.option(
    "--rules",
    "packs",
    multiple=True,
    metavar="DIR",
    help="Also check the rules in this folder, e.g. lint-rules. Repeatable.",
)
@click.option(
    "--fix", is_flag=True, help="Write the safe fixes: the run stays the same."
)
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="Also write fixes that change the run; each finding says how. Implies --fix.",
)
@click.option(
    "--diff", is_flag=True, help="Show what --fix would write, and write nothing."
)
@click.option(
    "--add-ignore", is_flag=True, help="Write an ignore comment above each finding."
)
@click.option(
    "--reason",
    default="",
    metavar="TEXT",
    help='Reason in the comments of --add-ignore, e.g. "debugging".',
)
@click.option(
    "--until",
    default="",
    metavar="DAY",
    help="Last day of the comments of --add-ignore, e.g. 2027-01-31.",
)
@click.option(
    "--baseline",
    default="",
    metavar="FILE",
    help="Findings to accept for now, e.g. fp8tune-baseline.json.",
)
@click.option(
    "--update-baseline", is_flag=True, help="Write all findings to the --baseline file."
)
@click.option(
    "--script",
    default="",
    metavar="FILE",
    help="Check the config, overrides and GPUs of a launch script, e.g. train.sbatch. "
    "Its arguments follow --.",
)
@with_option
@click.option(
    "--stdin-filename",
    default="-",
    metavar="NAME",
    help="Name of the config that is read from `-`, e.g. train.toml.",
)
@click.option(
    "--force-exclude",
    is_flag=True,
    help="Skip a named file that is excluded or not a train config, as in a folder.",
)
@click.option(
    "--require-configs", is_flag=True, help="Exit with 2 if no train config is found."
)
@click.option(
    "--watch", is_flag=True, help="Lint again whenever a file changes, until Ctrl-C."
)
@click.option("-q", "--quiet", is_flag=True, help="Print the findings only.")
def command(
    paths: tuple[str, ...],
    output_format: str | None,
    output_file: str,
    statistics: bool,
    quiet: bool,
    script: str,
    watch: bool,
    **asked: Any,
) -> int:
    """Check train configs: files, folders (searched for them), or - for stdin.

    Exit code 0: no finding at or above --fail-on. 1: at least one. 2: fp8tune could
    not do its work. OVERRIDES are the trainer's own arguments, as on its command line.

    \b
    Examples:
      fp8tune lint configs
      fp8tune lint train.toml --gpu h100 --world-size 16
      fp8tune lint configs --fix --diff
      fp8tune lint train.toml -- --train.batch_size=64
      fp8tune lint --script train.sbatch
    """
    from fp8tune.lint.main import lint
    from fp8tune.lint.selection import Problem
    from fp8tune.lint.show import Style, default_format

    options = _options(asked)
    chosen = output_format or default_format(output_file)
    style = Style(chosen, output_file, quiet=quiet, statistics=statistics)

    def check() -> int:
        named = paths, options
        if script:
            named = _of_script(script, paths, options, style)
        return lint(*named, style)

    try:
        if not watch:
            return check()
        watched = paths or (() if script else (".",))
        return _watched(check, watched, options, style)
    except Problem as error:
        raise Failure(str(error)) from None


def _watched(
    check: Callable[[], int], paths: tuple[str, ...], options: Options, style: Style
) -> int:
    """Check whenever a file changes; return the last exit code."""
    from fp8tune.lint.watch import watch

    writes = options.fix or options.add_ignore or options.update_baseline
    for_people = style.output_format in ("full", "concise") and not style.file
    if writes or "-" in paths or not for_people:
        raise Failure(
            "--watch prints findings of files: leave out -, --output-file, other "
            "formats than full and concise, and options that write files"
        )
    return watch(check, paths)


def _of_script(
    script: str, paths: tuple[str, ...], options: Options, style: Style
) -> tuple[tuple[str, ...], Options]:
    """Return the config that a script launches, and the options with its overrides."""
    import os

    from fp8tune.config.discover import CannotRead
    from fp8tune.lint.launch import CannotLaunch, read_launch
    from fp8tune.lint.selection import Problem
    from fp8tune.words import plain

    if paths:
        raise Failure("--script names the config: leave out PATHS")
    try:
        launch = read_launch(script, options.overrides, os.environ)
    except (CannotLaunch, CannotRead) as error:
        raise Problem(str(error)) from None
    if not style.quiet:
        notes = style.notes(sys.stdout, sys.stderr)
        runs = f"{script}:{launch.line} runs {launch.words}"
        first = f"{script}: its flags are the config" if launch.is_script else runs
        for line in (first, *launch.notes):
            print(plain(line), file=notes)
    if launch.is_script:
        return (launch.config,), options
    options = options._replace(overrides=launch.overrides, script=launch.target)
    beside = (*options.beside, *launch.beside)
    return (launch.config,), options._replace(beside=beside)


def _options(asked: dict[str, Any]) -> Options:
    """Return the lint options from those of the command line."""
    from fp8tune.config.settings import Options

    words = _ignore_words(asked.pop("reason"), asked.pop("until"), asked["add_ignore"])
    if asked["add_ignore"] and (asked["fix"] or asked["unsafe_fixes"]):
        raise Failure("--add-ignore and --fix cannot be combined: fix first, then add")
    for option in ("add_ignore", "update_baseline"):
        if asked[option] and asked["overrides"]:
            name = option.replace("_", "-")
            raise Failure(f"--{name} changes only the file: leave out the overrides")
    asked["world_size"] = asked["world_size"] or 0
    asked["fail_on"] = asked["fail_on"] or ""
    asked["fix"] |= asked["unsafe_fixes"] or asked["diff"]
    for name in ("select", "ignore"):
        asked[name] = _split(asked[name])
    return Options(**asked, ignore_words=words)


def _ignore_words(reason: str, until: str, add_ignore: bool) -> str:
    """Return what follows the rules' names in the comments of --add-ignore."""
    from fp8tune.config.mark import words

    if (reason or until) and not add_ignore:
        raise Failure("--reason and --until need --add-ignore")
    if until:
        import datetime

        try:
            day = datetime.date.fromisoformat(until)
        except ValueError:
            reason = "not a date of the form YYYY-MM-DD"
            raise Failure(f"--until {until}: {reason}") from None
        if day < datetime.date.today():
            raise Failure(f"--until {until}: that day has passed")
        until = str(day)
    if not reason.isprintable():
        raise Failure("--reason: one line without control characters")
    return words(until, reason.strip())


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)
