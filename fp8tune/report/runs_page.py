"""Write a comparison of runs as one HTML page that loads nothing."""

from __future__ import annotations

from fp8tune import __version__, atomic
from fp8tune.report.curves_plot import runs_plot
from fp8tune.report.html import MAX_ROWS, environment_of_pages, script_of
from fp8tune.report.plots import to_svg
from fp8tune.verify.gap import Comparison
from fp8tune.verify.gap_findings import findings
from fp8tune.verify.gap_output import figures, run_rows

TEMPLATE = "runs.html"


def write_page(result: Comparison, path: str) -> None:
    """Write the page; raises ``OSError``."""
    atomic.write(path, render(result).encode(errors="backslashreplace"))


def render(result: Comparison) -> str:
    """Return the page."""
    pages = environment_of_pages()
    script, digest = script_of(pages)
    return pages.get_template(TEMPLATE).render(
        result=result,
        findings=list(findings(result)),
        figures=figures(result),
        runs=run_rows(result),
        plots=list(filter(None, [runs_plot(result)])),
        svg=to_svg,
        script=script,
        script_hash=digest,
        max_rows=MAX_ROWS,
        version=__version__,
    )
