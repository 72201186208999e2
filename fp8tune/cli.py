"""The command line: a group whose commands load only when they are called."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from fp8tune import __version__

COMMANDS = ("explain", "lint", "rules")


class Failure(click.ClickException):
    """fp8tune could not do its work: one line on stderr, exit code 2."""

    exit_code = 2


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"fp8tune.commands.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from fp8tune.suggest import closest

            near = closest(args[0], COMMANDS)
            hint = f"; did you mean `{near}`?" if near else ""
            raise Failure(f"no command `{args[0]}`{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fp8tune")
def cli() -> None:
    """Check and tune FP8 training configs for Hopper GPUs."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(arguments, prog_name="fp8tune", standalone_mode=False)
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        click.echo(f"fp8tune: {_plain(message)}", err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("fp8tune: interrupted", err=True)
        code = 130
    except BrokenPipeError:
        sys.stdout = None
        code = 2
    sys.exit(code if isinstance(code, int) else 0)


def _plain(text: str) -> str:
    from fp8tune.lint.wording import plain

    return plain(text)
