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


def main() -> int:
    """Lint as the inputs say, and return lint's exit code."""
    given = os.environ
    folder = tempfile.mkdtemp(dir=given["RUNNER_TEMP"])
    paths = given["FP8TUNE_PATHS"].splitlines()
    options = given["FP8TUNE_ARGS"].splitlines()
    if given["FP8TUNE_CHANGED"] == "true" and given.get("GITHUB_BASE_REF"):
        # an empty folder, else lint would check this one
        paths = changed(paths) or [tempfile.mkdtemp(dir=folder)]
        options.append("--force-exclude")
    sarif, report = (os.path.join(folder, f"fp8tune.{form}") for form in FORMS)
    code = lint([*options, *paths], "github")
    for form, path in zip(FORMS, (sarif, report), strict=True):
        lint([*options, *paths, "--quiet", f"--output-file={path}"], form)
    if os.path.exists(report):  # else the options were wrong, and lint said so
        with open(report, encoding="utf-8") as file:
            findings = json.load(file)["diagnostics"]
        append(given["GITHUB_OUTPUT"], [f"sarif={sarif}", f"findings={len(findings)}"])
        append(given["GITHUB_STEP_SUMMARY"], summary(findings))
    return code


def changed(paths: list[str]) -> list[str]:
    """The files below the paths that the merge commit of a pull request changes."""
    git = ["git", "-c", "core.quotePath=off"]
    fetch = ["fetch", "--quiet", "--no-tags", "--depth=2", "origin"]
    run([*git, *fetch, os.environ["GITHUB_SHA"]], check=True)
    diff = ["diff", "-z", "--name-only", "--diff-filter=d", "HEAD^1", "HEAD", "--"]
    names = run([*git, *diff, *paths], check=True, stdout=subprocess.PIPE).stdout
    return [os.path.join(".", os.fsdecode(name)) for name in names.split(b"\0") if name]


def lint(arguments: list[str], form: str) -> int:
    """Lint with one format; nothing is imported from the folder that is checked."""
    command = [sys.executable, "-I", "-m", "fp8tune", "lint", f"--output-format={form}"]
    return run([*command, *arguments]).returncode


def run(
    command: list[str], *, check: bool = False, stdout: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command without a shell."""
    return subprocess.run(command, check=check, stdout=stdout)  # noqa: S603


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
