"""``fp8tune lsp``: the language server, for editors."""

from __future__ import annotations

import os
import sys

import click

from fp8tune.cli import Failure


@click.command("lsp", short_help="Serve editors by the language server protocol.")
def command() -> None:
    """Serve an editor on stdin and stdout by the language server protocol.

    It shows what lint finds as you type, offers fixes, explains rules and keys, and
    completes keys and values. docs/guides/editors.md has the settings of editors.

    \b
    Example:
      fp8tune lsp
    """
    try:
        from fp8tune.lsp.server import make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise Failure(
            "lsp needs pygls: pip install '.[lsp]' in a clone of fp8tune"
        ) from None
    with open(os.dup(sys.stdout.fileno()), "wb") as messages:  # the server closes it
        sys.stdout = sys.stderr  # what anything prints is no message
        make_server().start_io(stdout=messages)
