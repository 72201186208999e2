"""``fp8tune studies``: the searches in and below this folder."""

from __future__ import annotations

import json

import click

from fp8tune import studies
from fp8tune.cli import need, text_or_json
from fp8tune.extras import SEARCH


@click.command("studies", short_help="List the searches below this folder.")
@click.argument("folder", default=".", metavar="[FOLDER]")
@text_or_json
def command(folder: str, output_format: str) -> int:
    """List the studies in every .fp8tune in and below FOLDER.

    For each search: config, state, trials, time spent, and the answer so far. Every
    STUDY argument takes the beginning of a name, if no other study begins so. A study
    in another storage (search --storage) is not listed. Exit code 1: a study cannot
    be read.

    \b
    Example:
      fp8tune studies
    """
    found = list(studies.below(folder))
    need("studies", *SEARCH)
    from fp8tune.report.summary import Summary, as_json, summarize, text
    from fp8tune.search import CannotSearch

    summaries: list[Summary] = []
    wrong = []
    for path in found:
        try:
            summaries.append(summarize(path))
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
