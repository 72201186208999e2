"""``fp8tune studies``: the searches in and below this folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import click

from fp8tune import completion, studies
from fp8tune.cli import Failure, need, storage_option, text_or_json
from fp8tune.extras import SEARCH


@click.command("studies", short_help="List the searches below this folder.")
@click.argument("folder", default=".", metavar="[FOLDER]")
@storage_option
@click.option(
    "--delete",
    default="",
    metavar="NAME",
    shell_complete=completion.studies,
    help="Delete the study of this name: its trials, logs and report.",
)
@text_or_json
def command(folder: str, storage: str, delete: str, output_format: str) -> int:
    """List the studies in every .fp8tune in and below FOLDER.

    For each search: config, state, trials, time spent, and the answer so far. Every
    STUDY argument takes the beginning of a name, if no other study begins so. A study
    in another storage is listed with its --storage. Exit code 1: a study cannot be
    read.

    \b
    Examples:
      fp8tune studies
      fp8tune studies --delete rehearsal_cpu-2520e759
    """
    found = list(studies.below(folder))
    need("studies", *SEARCH)
    from fp8tune.report.summary import Summary, as_json, summarize, text
    from fp8tune.search import CannotSearch

    if delete:
        _delete(delete, found, storage)
        return 0

    summaries: list[Summary] = []
    wrong = []
    for path in found:
        try:
            summaries.append(summarize(path, storage))
        except CannotSearch as error:
            wrong.append(str(error))
    if output_format == "json":
        click.echo(json.dumps(as_json(summaries), indent=2))
    else:
        for each in summaries:
            click.echo("\n".join(text(each)))
        if not found:
            click.echo("no studies; fp8tune search CONFIG --budget 2h makes one")
    for line in wrong:
        click.echo(f"fp8tune: {line}", err=True)
    return int(bool(wrong))


def _delete(name: str, known: Sequence[str], url: str) -> None:
    """Delete the study of this name or path; raises ``Failure``."""
    from fp8tune.search import CannotSearch
    from fp8tune.search.saved_study import delete_study
    from fp8tune.search.storage import alone_in

    path = os.path.normpath(name)
    named = [each for each in known if path in (each, os.path.basename(each))]
    if len(named) != 1:
        many = "several studies have this name" if named else "no such study"
        raise Failure(f"--delete {name}: {many}; fp8tune studies lists them")
    try:
        with alone_in(named[0]):
            delete_study(named[0], url)
    except CannotSearch as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{error.filename or named[0]}: {error.strerror}") from None
    click.echo(f"deleted {named[0]}")
