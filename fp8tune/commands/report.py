"""``fp8tune report``: a study as one HTML page."""

from __future__ import annotations

import os

import click

from fp8tune import completion
from fp8tune.cli import Failure, need, storage_option, studies_option
from fp8tune.extras import SEARCH
from fp8tune.studies import NoStudy, find, has_journal


@click.command("report", short_help="Write the report of a search.")
@click.argument("study", metavar="STUDY", shell_complete=completion.studies)
@studies_option
@storage_option
def command(study: str, studies: str, storage: str) -> None:
    """Write the report of STUDY: a folder, or the beginning of a name in .fp8tune.

    With --storage it may be a study that was searched elsewhere. The search may still
    be running: its trials are only read. The page is one HTML file that loads nothing
    from the network.

    \b
    Example:
      fp8tune report rehearsal_cpu-2520e759
    """
    need("report", *SEARCH)
    from fp8tune.search import CannotSearch, load_numpy

    folder = studies
    try:
        load_numpy()
        from fp8tune.report.html import write_report
        from fp8tune.search.saved_study import names_in

        stored = names_in(storage) if storage else []
        folder = find(study, studies, stored)
        name = os.path.basename(os.path.abspath(folder))
        if has_journal(folder) and name not in stored:
            storage = ""
        click.echo(write_report(folder, url=storage))
    except (CannotSearch, NoStudy) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}") from None
