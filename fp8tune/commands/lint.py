"""``fp8tune lint``: check train configs without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fp8tune.cli import Choice, Failure

if TYPE_CHECKING:
    from fp8tune.lint.settings import Options

LEVELS = ("error", "warning", "note", "never")
FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")


@click.command("lint")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@click.option("--gpu", default="", help="GPU that the run is for, e.g. h100 or h200.")
@click.option("--world-size", type=click.IntRange(1, 10**7), help="GPUs of the run.")
@click.option(
    "--trainer", default="", help="Take every file for a config of this trainer."
)
@click.option(
    "--output-format",
    type=Choice(FORMATS),
    show_default="full; github under GitHub Actions",
)
@click.option(
    "--output-file", default="", metavar="FILE", help="Write the findings to FILE."
)
@click.option("--statistics", is_flag=True, help="Count the findings of each rule.")
@click.option(
    "--fail-on",
    type=Choice(LEVELS),
    show_default="error",
    help="Exit with 1 on a finding of this level or above.",
)
@click.option(
    "--select", multiple=True, help="Only these rules (name, code, category)."
)
@click.option("--ignore", multiple=True, help="Not these rules (name, code, category).")
@click.option(
    "--rules", "packs", multiple=True, help="A folder with rules of your own."
)
@click.option("--fix", is_flag=True, help="Fix what can be fixed safely.")
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="Fix also what changes the run (each finding says how); implies --fix.",
)
@click.option("--diff", is_flag=True, help="Show what --fix would do; write nothing.")
@click.option("--add-ignore", is_flag=True, help="Write an ignore comment per finding.")
@click.option("--reason", default="", help="Reason in the comments of --add-ignore.")
@click.option("--until", default="", help="Their last day, YYYY-MM-DD.")
@click.option("--baseline", default="", help="A file of findings to live with for now.")
@click.option(
    "--update-baseline", is_flag=True, help="Write what is found into the baseline."
)
@click.option("--stdin-filename", default="-", help="Name of what is read from `-`.")
@click.option(
    "--force-exclude",
    is_flag=True,
    help="Take files named here as those of a folder: skip what is excluded or no "
    "train config.",
)
@click.option(
    "--require-configs", is_flag=True, help="Exit with 2 if there is no train config."
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but the findings.")
def command(
    paths: tuple[str, ...],
    output_format: str | None,
    output_file: str,
    statistics: bool,
    quiet: bool,
    **asked: Any,
) -> int:
    """Check train configs: files, folders (searched for *.toml), or - for stdin.

    Exit code 0: nothing at or above --fail-on; 1: something; 2: fp8tune could not
    do its work.
    """
    from fp8tune.lint.main import lint
    from fp8tune.lint.selection import Problem
    from fp8tune.lint.show import Style, default_format

    options = _options(asked)
    chosen = output_format or default_format(output_file)
    style = Style(chosen, output_file, quiet=quiet, statistics=statistics)
    try:
        return lint(paths, options, style)
    except Problem as error:
        raise Failure(str(error)) from None


def _options(asked: dict[str, Any]) -> Options:
    """The options of a run, from those of the command line."""
    from fp8tune.lint.settings import Options

    words = _ignore_words(asked.pop("reason"), asked.pop("until"), asked["add_ignore"])
    if asked["add_ignore"] and (asked["fix"] or asked["unsafe_fixes"]):
        raise Failure("--add-ignore and --fix do not go together: fix first, then add")
    asked["world_size"] = asked["world_size"] or 0
    asked["fail_on"] = asked["fail_on"] or ""
    asked["fix"] |= asked["unsafe_fixes"] or asked["diff"]
    for name in ("select", "ignore"):
        asked[name] = _split(asked[name])
    return Options(**asked, ignore_words=words)


def _ignore_words(reason: str, until: str, add_ignore: bool) -> str:
    """What follows the rules' names in the comments of --add-ignore."""
    from fp8tune.lint.mark import words

    if (reason or until) and not add_ignore:
        raise Failure("--reason and --until go with --add-ignore")
    if until:
        import datetime

        try:
            day = datetime.date.fromisoformat(until)
        except ValueError:
            raise Failure(f"--until {until}: no date of the form YYYY-MM-DD") from None
        if day < datetime.date.today():
            raise Failure(f"--until {until}: that day is over")
        until = str(day)
    if not reason.isprintable():
        raise Failure("--reason: one line without control characters")
    return words(until, reason.strip())


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)
