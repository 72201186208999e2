"""The command line: a group whose commands load only when they are called."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

import click

from fp8tune import __version__, completion
from fp8tune.program import fail
from fp8tune.studies import CALIBRATION

if TYPE_CHECKING:
    from fp8tune.config.reader import Config

COMMANDS = (
    "compare",
    "doctor",
    "estimate",
    "explain",
    "init",
    "lint",
    "lsp",
    "phases",
    "report",
    "rules",
    "schema",
    "search",
    "studies",
    "verify",
)


class Failure(click.ClickException):
    """A command could not run: prints one line on stderr, exit code 2."""

    exit_code = 2


class Choice(click.Choice[str]):
    """An option with a fixed set of values; a misspelt value gets a suggestion."""

    def get_invalid_choice_message(
        self, value: object, ctx: click.Context | None
    ) -> str:
        """Return click's message, with the nearest choice."""
        said = super().get_invalid_choice_message(value, ctx)
        from fp8tune.suggest import meant

        return f"{said.rstrip('.')}{meant(str(value), self.choices)}"


text_or_json = click.option(
    "--output-format",
    type=Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text for people, json for programs.",
)
"""The option of every command that speaks to people or to programs."""

calibration_file = click.option(
    "--calibration",
    default=CALIBRATION,
    show_default=True,
    metavar="FILE",
    help="File of measured runs.",
)
"""The option of every command whose figures measured runs correct."""

gpu_option = click.option(
    "--gpu",
    default="",
    metavar="NAME",
    shell_complete=completion.gpus,
    help="GPU of the run, e.g. h100 or h200.",
)
world_size_option = click.option(
    "--world-size",
    type=click.IntRange(1, 10**7),
    metavar="N",
    help="Number of GPUs of the run, e.g. 16.",
)
gpus_per_node_option = click.option(
    "--gpus-per-node",
    type=click.IntRange(1, 10**7),
    metavar="N",
    help="GPUs of one machine, e.g. 4; 8 by default.",
)
"""The target of a run, for every command that reads a config."""


def named_trainer(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001
    """Return the name of ``--trainer``; a file that describes one is read first."""
    if "/" not in value and not value.endswith(".toml"):
        from fp8tune.trainers.about import named

        return named(value)
    from fp8tune.config.own_trainer import BadTrainer, add_trainer

    try:
        return add_trainer(value)
    except BadTrainer as error:
        raise Failure(str(error)) from None


trainer_option = click.option(
    "--trainer",
    default="",
    metavar="NAME",
    callback=named_trainer,
    shell_complete=completion.trainers,
    help="Trainer of the config, where its keys do not show it: NAME, NAME==VERSION, "
    "or the path of a file that describes one.",
)


def _assume_installed(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Let configs be read as for the packages of the active environment."""
    if asked and not context.resilient_parsing:
        from fp8tune.trainers.packages import assuming, installed

        context.with_resource(assuming(installed()))


with_option = click.option(
    "--with",
    "beside",
    multiple=True,
    metavar="FILE",
    help="Another file of the same job, e.g. the training arguments beside an "
    "Accelerate launch file.",
)
"""``--with``: the other files of a job."""

installed_option = click.option(
    "--installed",
    is_flag=True,
    expose_value=False,
    callback=_assume_installed,
    help="Read configs as for the trainers and packages installed in $VIRTUAL_ENV, or "
    "beside fp8tune, where no file pins their releases.",
)

studies_option = click.option(
    "--studies",
    default=".fp8tune",
    show_default=True,
    metavar="DIR",
    help="Folder of the studies.",
)

storage_option = click.option(
    "--storage",
    default="",
    envvar="FP8TUNE_STORAGE",
    show_envvar=True,
    metavar="URL",
    help="The --storage of the search, e.g. sqlite:///x.db.",
)


class WithOverrides(click.Command):
    """A command that takes the trainer's own command line behind ``--``.

    The command's function receives it as ``overrides``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before ``--``; keep the rest unchanged."""
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["overrides"] = tuple(args[at + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the pieces of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- OVERRIDES]"]


class Group(click.Group):
    """A group of commands that suggests the nearest name for a misspelt one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; raises ``Failure``."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            from fp8tune.suggest import meant

            raise Failure(f"no command `{args[0]}`{meant(args[0], names)}")
        return super().resolve_command(ctx, args)


class _Commands(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"fp8tune.commands.{name}").command
        return command


def need(command: str, *packages: str) -> None:
    """Fail if packages that a command needs are missing; name all of them at once."""
    from fp8tune.extras import Missing, require

    try:
        require(command, *packages)
    except Missing as error:
        raise Failure(str(error)) from None


def named_config(
    path: str,
    gpu: str | None,
    world_size: int | None,
    gpus_per_node: int = 0,
    overrides: tuple[str, ...] = (),
    trainer: str = "",
    beside: tuple[str, ...] = (),
) -> Config:
    """Return the config that a command line names; raises ``Failure``."""
    from fp8tune.config import reader as config
    from fp8tune.config.directive import BadTarget, asked
    from fp8tune.config.discover import CannotRead
    from fp8tune.config.settings import BadSettings
    from fp8tune.formats.document import Unreadable
    from fp8tune.trainers.about import misnamed

    if trainer and (wrong := misnamed(trainer)):
        raise Failure(wrong)
    try:
        target = asked(gpu, world_size, gpus_per_node)
        return config.read_config(path, target, overrides, trainer, beside)
    except Unreadable as error:
        raise Failure(f"{path}: {error}") from None
    except config.NotAConfig as error:
        raise Failure(_launched(path, overrides) or str(error)) from None
    except (CannotRead, BadSettings, BadTarget) as error:
        raise Failure(str(error)) from None


def _launched(path: str, arguments: tuple[str, ...]) -> str:
    """Return what to type for the config that a script runs; empty for no script."""
    from fp8tune.formats import format_of

    if format_of(path) != "bash":
        return ""
    from fp8tune.lint.launch import CannotLaunch, read_launch

    try:
        launch = read_launch(path, arguments, os.environ)
    except CannotLaunch:
        return ""
    command = click.get_current_context().command_path
    return f"{path}: it runs a config: {command} {launch.arguments}"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fp8tune")
def cli() -> None:
    """Check and tune FP8 training configs for Hopper GPUs.

    \b
    Start with:
      fp8tune lint configs            what breaks, or silently is not FP8
      fp8tune estimate train.toml     memory and speed, without a GPU
      fp8tune search train.toml --budget 2h
    """


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        code = cli.main(arguments, prog_name="fp8tune", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.ClickException as error:
        return fail(" ".join(error.format_message().split()), 2)
    except click.Abort:
        return fail("interrupted", 130)
    else:
        return code if isinstance(code, int) else 0
    return 0
