"""What was fixed and what can be, in a line each; and patches."""

import io

import pytest

from fp8tune.config.settings import Options
from fp8tune.lint.diagnostic import Diagnostic, Fix, Label, Region, Report
from fp8tune.lint.main import fix_lines, show_patches
from fp8tune.lint.run import Result
from fp8tune.lint.show import Style
from tests.each import each


def found(safety=""):
    label = Label("a.b", Region(1, 1, 1, 2), "")
    fix = Fix(safety, "fix", "", ()) if safety else None
    return Diagnostic("x", "r", "X", "slow", "note", "m", "", "", (label,), fix=fix)


def lines(*reports, **options):
    return list(fix_lines(Result(list(reports), []), Options(**options)))


SAFE, UNSAFE = found("safe"), found("unsafe")
OFFERED = Report("a", [SAFE, UNSAFE, UNSAFE, found()])
TRIED = OFFERED._replace(fixable=(2, 1))
FIXED = Report("b", [UNSAFE], fixed=(SAFE, SAFE))


@each(
    ("reports", "options", "said"),
    [
        (
            [OFFERED, OFFERED],
            {},
            [
                "can fix up to 2 findings with --fix",
                "can fix up to 4 more findings with --unsafe-fixes, which change "
                "the run",
            ],
        ),
        (
            [TRIED, TRIED],
            {},
            [
                "can fix 4 findings with --fix",
                "can fix 2 more findings with --unsafe-fixes, which change the run",
            ],
        ),
        (
            [FIXED, OFFERED],
            {"fix": True},
            [
                "fixed 2 findings in 1 file: r x 2",
                "can fix up to 3 findings with --unsafe-fixes, which change the run",
            ],
        ),
        (
            [FIXED, OFFERED],
            {"fix": True, "diff": True},
            ["would fix 2 findings in 1 file: r x 2"],
        ),
        (
            [Report("a", [], fixed=(SAFE,))],
            {"add_ignore": True},
            ["added ignore comments for 1 finding in 1 file: r"],
        ),
    ],
)
def test_fix_lines(reports, options, said):
    assert lines(*reports, **options) == said


class Terminal(io.StringIO):
    def isatty(self):
        return True


PATCH = "--- a\n+++ a\n-a = 1\r\n+a = \x1b[31m2\r\n"


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (io.StringIO, PATCH * 2),
        (Terminal, PATCH.replace("\r", r"\u000d").replace("\x1b", r"\u001b") * 2),
    ],
)
def test_show_patches(out, said):
    stream = out()
    reports = [Report("a", [], patch=PATCH), Report("b", []), Report("c", [])]
    reports[2] = reports[2]._replace(patch=PATCH)
    show_patches(Result(reports, []), Style("full"), stream)
    assert stream.getvalue() == said
