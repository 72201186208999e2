"""``fp8tune worker``: measure trials of a running search on this machine's GPU."""

from __future__ import annotations

import os

import click

from fp8tune.cli import Failure, need
from fp8tune.extras import SEARCH, TRIALS
from fp8tune.studies import FOLDER, JOURNAL, NoStudy, find, has_journal


@click.command("worker", short_help="Measure trials of a running search.")
@click.option(
    "--storage",
    default="",
    envvar="FP8TUNE_STORAGE",
    show_envvar=True,
    metavar="URL",
    help="The storage of the search: a database's URL, or a study.journal on a shared "
    "file system.  [default: that of .fp8tune/NAME]",
)
@click.option("--study", required=True, metavar="NAME", help="The study's name.")
def command(storage: str, study: str) -> int:
    """Measure trials of a running search on this machine, until the search is over.

    Start one worker for each GPU, on any machines with the same GPU and software, in
    the folder in which the search was started. A worker uses the first GPU that it
    sees: set CUDA_VISIBLE_DEVICES for each. A worker that ends gives its trial back. If
    the process of the search ends, one of the workers coordinates; the command of the
    search then writes the answer.

    Exit code 0: the search is over. 2: this machine cannot take part. 143: stopped by
    a signal.

    \b
    Examples:
      fp8tune worker --storage postgresql://me@db/tuning --study train-1a2b3c4d
      CUDA_VISIBLE_DEVICES=1 fp8tune worker --study train-1a2b3c4d
    """
    from fp8tune.search import CannotSearch, load_numpy

    need("worker", *SEARCH, *TRIALS)
    load_numpy()
    from fp8tune.search.storage import check_locks
    from fp8tune.search.worker import work

    try:
        if not storage:
            folder = find(study, FOLDER)
            if not has_journal(folder):
                raise Failure(f"{folder}: no study.journal in it; give its --storage")
            storage, study = os.path.join(folder, JOURNAL), os.path.basename(folder)
        check_locks(storage)
        return work(storage, study)
    except (CannotSearch, NoStudy) as error:
        raise Failure(str(error)) from None
