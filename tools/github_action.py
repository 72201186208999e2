"""The step of ``action.yml``: lint for a workflow of GitHub Actions.

It prints annotations, writes SARIF, appends a table of the findings to the summary of
the job, and ends with lint's exit code. Inputs and places are environment variables.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any

from fp8tune.words import counted, plain

FORMS = ("sarif", "json")

MOST = 100
"""Findings that the table has at most."""

UNCHECKED = 2
"""Lint's exit code where it could not check all that was asked."""

FAILED = "### fp8tune could not check everything: the log of the step says why"

ALL = (
    "fp8tune: all files are checked, because this checkout does not tell what a pull "
    "request changes: for `changed`, run on `pull_request`, and use actions/checkout "
    "with `fetch-depth: 2` and without `ref`"
)
"""What is said where it cannot be told what a pull request changes."""


def main() -> int:
    """Lint as the inputs say, and return lint's exit code."""
    given = os.environ
    folder = tempfile.mkdtemp(dir=given["RUNNER_TEMP"])
    paths = lines(given["FP8TUNE_PATHS"])
    absent = [path for path in paths if not os.path.lexists(path)]
    options = [word for line in lines(given["FP8TUNE_ARGS"]) for word in words(line)]
    only = given["FP8TUNE_CHANGED"].lower() == "true" and given.get("GITHUB_BASE_REF")
    if only and not absent:  # lint says which path is not there
        files = changed(paths)
        if files is None:
            print(f"::warning::{ALL}", flush=True)
        elif not files:
            print("fp8tune: this pull request changes no file to check")
            options.append("--quiet")
            paths = [tempfile.mkdtemp(dir=folder)]
        else:
            paths = files
            options.append("--force-exclude")
    code = lint([*options, *paths], "github")
    if code == UNCHECKED:
        append(given["GITHUB_STEP_SUMMARY"], [FAILED])
        return code
    sarif, report = (os.path.join(folder, f"fp8tune.{form}") for form in FORMS)
    for form, path in zip(FORMS, (sarif, report), strict=True):
        lint([*options, *paths, "--quiet", f"--output-file={path}"], form)
    with open(report, encoding="utf-8") as file:
        findings = json.load(file)["diagnostics"]
    append(given["GITHUB_OUTPUT"], [f"sarif={sarif}", f"findings={len(findings)}"])
    append(given["GITHUB_STEP_SUMMARY"], summary(findings))
    return code


def lines(text: str) -> list[str]:
    """The lines of an input, without blanks around them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def words(line: str) -> list[str]:
    """The arguments in a line: ``--gpu h100`` has two, ``--gpu=h100`` one."""
    option, _, value = line.partition(" ")
    return [option, value.strip()] if value and option.startswith("--") else [line]


def changed(paths: list[str]) -> list[str] | None:
    """The files below the paths that a pull request changes.

    ``None`` where the checkout is not the merge commit that GitHub makes of it, so that
    its first parent is not what the pull request is compared with, or has no parents.
    """
    sha, event = os.environ["GITHUB_SHA"], os.environ["GITHUB_EVENT_NAME"]
    if event != "pull_request" or git("rev-parse", "HEAD").strip() != sha.encode():
        return None
    parent = ("rev-parse", "--quiet", "--verify", "HEAD^2")
    if not git(*parent):  # a checkout of one commit
        git("fetch", "--quiet", "--no-tags", "--depth=2", "origin", sha)
    if not git(*parent):
        return None
    diff = ["diff", "-z", "--name-only", "--diff-filter=d", "--ignore-submodules"]
    names = git(*diff, "HEAD^1", "HEAD", "--", *paths).split(b"\0")
    return [os.path.join(".", os.fsdecode(name)) for name in names if name]


def git(*arguments: str) -> bytes:
    """What git prints; nothing where it fails."""
    command = ["git", "-c", "core.quotePath=off", *arguments]
    return run(command, stdout=subprocess.PIPE).stdout


def lint(arguments: list[str], form: str) -> int:
    """Lint with one format; nothing is imported from the folder that is checked."""
    command = [sys.executable, "-I", "-m", "fp8tune", "lint", f"--output-format={form}"]
    return run([*command, *arguments]).returncode


def run(
    command: list[str], *, stdout: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command without a shell."""
    return subprocess.run(command, check=False, stdout=stdout)  # noqa: S603


def append(path: str, lines: list[str]) -> None:
    """Append lines to a file of the workflow."""
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def summary(findings: list[dict[str, Any]]) -> list[str]:
    """The findings as a table in Markdown."""
    lines = [f"### fp8tune: {counted(len(findings), 'finding')}", ""]
    if findings:
        lines += ["| severity | rule | place | finding |", "|---|---|---|---|"]
        lines += map(row, findings[:MOST])
    if len(findings) > MOST:
        lines += ["", f"{len(findings) - MOST} more are in the log."]
    return lines


def row(finding: dict[str, Any]) -> str:
    """A finding as a row; text of a config cannot be markup or leave its cell."""
    place = f"{finding['path']}:{finding['line']}:{finding['column']}"
    words = (finding["severity"], finding["rule"], place, finding["message"])
    return f"| {' | '.join(map(cell, words))} |"


def cell(text: str) -> str:
    """Text of a cell; what stands in backticks is code."""
    text = html.escape(plain(text), quote=False)
    for mark in "\\|[]*_~!@":
        text = text.replace(mark, f"&#{ord(mark)};")
    return re.sub("`([^`]+)`", r"<code>\1</code>", text).replace("`", "&#96;")


if __name__ == "__main__":
    sys.exit(main())
