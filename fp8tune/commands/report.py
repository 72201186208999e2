"""``fp8tune report``: a study as one HTML page."""

from __future__ import annotations

import os

import click

from fp8tune import completion
from fp8tune.cli import Failure, studies_option


@click.command("report", short_help="Write the report of a search.")
@click.argument("study", metavar="STUDY", shell_complete=completion.studies)
@click.option("--plots", is_flag=True, help="Also write each plot as PNG and SVG.")
@click.option(
    "--output",
    default="",
    metavar="FILE",
    help="Where the page goes.  [default: STUDY/report.html]",
)
@studies_option
@click.option(
    "--storage",
    default="",
    metavar="URL",
    help="The --storage of the search, e.g. sqlite:///x.db.",
)
def command(study: str, plots: bool, output: str, studies: str, storage: str) -> None:
    """Write the report of STUDY, a folder or the name of one in .fp8tune.

    The search may still run: its trials are only read. The page is one HTML file that
    loads nothing from the network.

    \b
    Example:
      fp8tune report rehearsal_cpu-2520e759 --plots
    """
    from fp8tune.search import CannotSearch, load_numpy

    folder = study if os.path.isdir(study) else os.path.join(studies, study)
    if not os.path.isdir(folder):
        raise Failure(f"no study {study}: neither a folder nor one in {studies}")
    try:
        load_numpy()
        from fp8tune.report.html import write_report

        written = write_report(folder, output, plots=plots, url=storage)
    except ModuleNotFoundError as error:
        hint = "pip install 'fp8tune[search]'"
        raise Failure(f"report needs {error.name}: {hint}") from None
    except CannotSearch as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{output or folder}: {error.strerror}") from None
    for path in written:
        click.echo(path)
