"""``fp8tune report``: a study as one HTML page."""

from __future__ import annotations

import os

import click

from fp8tune.cli import Failure


@click.command("report")
@click.argument("study", metavar="STUDY")
@click.option("--plots", is_flag=True, help="Write each plot as PNG and SVG beside it.")
@click.option("--output", default="", metavar="FILE", help="Where to write the page.")
@click.option("--studies", default=".fp8tune", show_default=True, help="Their folder.")
@click.option("--storage", default="", metavar="URL", help="Where search kept STUDY.")
def command(study: str, plots: bool, output: str, studies: str, storage: str) -> None:
    """Remake the report of STUDY: a folder, or a name within .fp8tune.

    The study may be of a search that still runs; its trials are only read. The page is
    one file without network, STUDY/report.html unless --output says otherwise.
    """
    from fp8tune.search import load_numpy

    folder = study if os.path.isdir(study) else os.path.join(studies, study)
    if not os.path.isdir(folder):
        raise Failure(f"no study {study}: neither a folder nor one in {studies}")
    try:
        load_numpy()
        from fp8tune.report.html import write_report
        from fp8tune.search.storage import BadStudy
        from fp8tune.search.tuned_config import CannotPut

        written = write_report(folder, output, plots=plots, url=storage)
    except ModuleNotFoundError as error:
        hint = "pip install 'fp8tune[search]'"
        raise Failure(f"report needs {error.name}: {hint}") from None
    except (BadStudy, CannotPut) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{output or folder}: {error.strerror}") from None
    for path in written:
        click.echo(path)
