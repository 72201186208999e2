"""``fp8tune studies``: the searches in and below this folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext

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
    in another storage is listed with its --storage, wherever it was searched. Exit code
    1: a study cannot be read. 2: the storage does not answer.

    \b
    Examples:
      fp8tune studies
      fp8tune studies --delete rehearsal_cpu-2520e759
    """
    if not os.path.isdir(folder):
        raise Failure(
            f"{folder}: no such folder; `fp8tune studies` lists the searches below "
            "this one, `fp8tune report STUDY` shows one"
        )
    found = list(studies.below(folder))
    need("studies", *SEARCH)
    from fp8tune.report.summary import Summary, as_json, summarize_all, text
    from fp8tune.search import CannotSearch
    from fp8tune.search.say import say

    if delete:
        _delete(delete, found, storage)
        return 0

    try:
        every = list(summarize_all(found, storage))
    except CannotSearch as error:
        raise Failure(str(error)) from None
    summaries = [each for each in every if isinstance(each, Summary)]
    wrong = [each for each in every if isinstance(each, str)]
    if output_format == "json":
        click.echo(json.dumps(as_json(summaries), indent=2))
    else:
        for each in summaries:
            for line in text(each):
                say(line, sys.stdout)
        if not every:
            click.echo("no studies; fp8tune search CONFIG --budget 2h makes one")
    for line in wrong:
        click.echo(f"fp8tune: {line}", err=True)
    return int(bool(wrong))


def _delete(name: str, known: Sequence[str], url: str) -> None:
    """Delete the study of this name or path; raises ``Failure``."""
    from fp8tune.search import CannotSearch
    from fp8tune.search.saved_study import delete_study, names_in
    from fp8tune.search.storage import alone_in

    path, folder = os.path.normpath(name), ""
    try:
        stored = names_in(url) if url else []
        folder = _named(path, known, stored)
        with alone_in(folder) if os.path.isdir(folder) else nullcontext():
            deleted = delete_study(folder, "" if studies.has_journal(folder) else url)
    except CannotSearch as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{error.filename or folder}: {error.strerror}") from None
    click.echo(f"deleted {deleted}")


def _named(name: str, known: Sequence[str], stored: Sequence[str]) -> str:
    """Return the folder of the study of this name; raises ``Failure``.

    For a study that only the storage has it is a folder that does not exist.
    """
    named = [each for each in known if name in (each, os.path.basename(each))]
    if len(named) == 1 and not (name in stored and studies.has_journal(named[0])):
        return named[0]
    if name in stored and not named:
        return name
    many, names = "no such study", {*map(os.path.basename, known), *stored}
    if named:
        paths = [*named, "the storage's"] if name in stored else named
        many = f"several studies have this name: {', '.join(paths)}; give the path"
    elif longer := sorted(each for each in names if each.startswith(name)):
        many = f"the whole name is needed, such as {longer[0]}"
    raise Failure(f"--delete {name}: {many}; fp8tune studies lists them")
