"""What a run prints: formats, colour, and the summary."""

import io
import re

import pytest

from fp8tune.commands.lint import FORMATS
from fp8tune.lint.diagnostic import Diagnostic, Label, Region, Report
from fp8tune.lint.run import Result
from fp8tune.lint.show import MAX_PER_FILE, NO_CONFIGS, summary, wants_colour
from tests.each import each
from tests.lint.results import printed
from tests.sample import TP


def found(severity="error", path="a.toml", line=1):
    label = Label("train.tp", Region(line, 6, line, 7), "here")
    return Diagnostic(
        path, "a-rule", "FP8100", "crash", severity, "bad", "", "", (label,)
    )


@each("output_format", FORMATS)
@each("quiet", [True, False])
def test_unread_files_go_to_stderr(output_format, quiet):
    result = Result([], ["a\x1b.toml: gone"])
    out, err = printed(result, output_format, quiet=quiet)
    assert err.startswith("fp8tune: a\\u001b.toml: gone\n")
    assert "\x1b" not in out
    assert ("gone" in out) == (output_format in ("sarif", "github", "junit"))


def test_paths_and_messages_are_safe_in_every_format():
    odd = found(path="\x1b[2J.toml")._replace(message="a\nb\x1b")
    result = Result([Report("\x1b[2J.toml", [odd])], [])
    for output_format in ("full", "concise", "json", "github", "gitlab", "junit"):
        out, err = printed(result, output_format)
        assert "\x1b" not in out + err
    assert printed(result, "concise", quiet=True)[0] == (
        "\\u001b[2J.toml:1:6: error[a-rule] a\\u000ab\\u001b\n"
    )


def test_a_file_with_very_many_findings_is_cut():
    findings = [found() for _ in range(MAX_PER_FILE + 3)]
    result = Result([Report("a.toml", findings), Report("b.toml", [found()])], [])
    out, _ = printed(result)
    assert out.count(" --> ") == MAX_PER_FILE + 1
    assert "\n... and 3 more in a.toml\n\n" in out
    assert out.endswith("104 errors in 2 of 2 files\n")
    assert printed(result, "concise")[0].count("\n") == MAX_PER_FILE + 4


@each(
    ("reports", "lines"),
    [
        ([], [NO_CONFIGS]),
        ([Report("a", [found()]), Report("b", [])], ["1 error in 1 of 2 files"]),
        (
            [
                Report("a", [found("note"), found("error"), found("note")]),
                Report("b", [found("warning")]),
                Report("c", []),
            ],
            ["1 error, 1 warning, 2 notes in 2 of 3 files"],
        ),
        (
            [Report("a", [], skipped="a fragment")],
            ["no train configs found", "skipped a: a fragment"],
        ),
        (
            [Report(n, [], skipped="x") for n in "abc"],
            ["no train configs found", "skipped a: x", "skipped b: x", "skipped c: x"],
        ),
        (
            [Report(n, [], skipped="xy"[n == "a"]) for n in "abcd"],
            ["no train configs found", "skipped 4 files: 3 x x, 1 x y"],
        ),
        (
            [Report("a", [], {"s": "world_size", "r": "gpu"})],
            [
                "no findings in 1 file",
                "1 rule not checked in 1 file because the GPU is unknown: add "
                "--gpu h100, or `# fp8tune: gpu=h100` at the top of the file",
                "1 rule not checked in 1 file because the number of GPUs is unknown: "
                "add --world-size 16, or `# fp8tune: world-size=16` at the top of "
                "the file",
            ],
        ),
    ],
)
def test_summary(reports, lines):
    assert list(summary(Result(reports, []))) == lines


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "stream", "colour"),
    [
        ({}, io.StringIO, False),
        ({}, Terminal, True),
        ({"TERM": "dumb"}, Terminal, False),
        ({"TERM": "xterm"}, Terminal, True),
        ({"NO_COLOR": "1"}, Terminal, False),
        ({"NO_COLOR": ""}, Terminal, True),
        ({"FORCE_COLOR": "1"}, io.StringIO, True),
        ({"FORCE_COLOR": ""}, io.StringIO, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, io.StringIO, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal, False),
    ],
)
def test_wants_colour(monkeypatch, environment, stream, colour):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(stream()) is colour


@pytest.mark.parametrize(
    ("environment", "colour"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"NO_COLOR": "1"}, False)],
)
def test_colour_of_the_command(fp8tune, project, monkeypatch, environment, colour):
    project({"a.toml": TP})
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    said = fp8tune("lint", "a.toml")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert ("\x1b[" in said.out) is colour
    monkeypatch.setenv("NO_COLOR", "1")
    plain = fp8tune("lint", "a.toml").out
    assert re.sub(r"\x1b\[[\d;]+m", "", said.out) == plain
