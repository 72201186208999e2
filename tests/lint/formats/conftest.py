"""Real runs over the samples, and over every bad example of the rules."""

import pytest

from fp8tune.config.settings import Options
from fp8tune.lint.diagnostic import Change, Fix, Region
from fp8tune.lint.run import run
from tests.lint.formats.samples import SAMPLES
from tests.lint.formats.sarif_log import checked
from tests.sample import TP

SAFE = Fix("safe", "Use the default", "", (Change(0, 0, "", Region(4, 1, 5, 1)),))
UNSAFE = Fix(
    "unsafe",
    "Set `distributed.tp = 1`",
    "one GPU holds {all} of it",
    (
        Change(46, 47, "1", Region(4, 6, 4, 7)),
        Change(0, 0, "# \u6f22\n", Region(1, 1, 1, 1)),
    ),
)


@pytest.fixture(params=SAMPLES)
def sample(request, project, fp8tune):
    """Lint one sample in a format; called with the format."""
    files, arguments = SAMPLES[request.param]
    project(files)

    def lint(output_format, *options):
        return fp8tune("lint", "--output-format", output_format, *options, *arguments)

    return lint


@pytest.fixture
def fixable(project):
    """A result with an unsafe fix, a safe one and none."""
    project({"a.toml": TP, "b.toml": TP, "c.toml": TP})
    result = run((".",), Options())
    for report, fix in zip(result.reports, (UNSAFE, SAFE, None), strict=True):
        report.diagnostics[:] = [d._replace(fix=fix) for d in report.diagnostics]
    return result


@pytest.fixture
def log(fp8tune):
    """The run of the log of a command."""

    def lint(*arguments):
        said = fp8tune("lint", *arguments, "--output-format", "sarif")
        return checked(said.json)

    return lint
