"""Streams and processes: stdin, readers that are gone, encodings, as a module."""

import json
import os
import subprocess
import sys

import pytest

from fp8tune.search.session import UNREAD
from tests.sample import ERROR, GOOD
from tests.search.replayed import CONFIG, RECORDS, lines


def spawn(*arguments, folder, **options):
    """The command line in a process of its own, without this process's colours."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("FORCE_COLOR", "NO_COLOR")
    }
    return subprocess.run(
        [sys.executable, "-m", "fp8tune", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        **{"capture_output": True, **options},
    )


def test_stdin_beside_files(fp8tune, project):
    project({"a.toml": GOOD})
    said = fp8tune(
        "lint", "a.toml", "-", "-", "--output-format", "json", stdin=ERROR.encode()
    )
    assert (said.json["files"], len(said.json["diagnostics"])) == (2, 1)


def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", "a.toml"],
        ["lint", "a.toml", "--output-format", "json"],
        ["lint", "many"],
        ["rules"],
        ["explain", "FP8101"],
    ],
)
def test_a_reader_that_is_gone_is_no_traceback(project, arguments):
    keys = "".join(f"key{number} = 1\n" for number in range(90))
    root = project({f"many/{n}.toml": f"[train]\n{keys}" for n in range(9)})
    project({"a.toml": GOOD})
    pipe = closed_pipe()
    said = spawn(
        *arguments,
        folder=root,
        stdout=pipe,
        stderr=subprocess.PIPE,
        capture_output=False,
    )
    os.close(pipe)
    assert said.stderr == b""
    assert said.returncode != 0


@pytest.fixture
def replayed(project):
    """The arguments of a search of recorded trials, in the project folder."""
    project({"a.toml": CONFIG, "r.jsonl": lines(RECORDS)})
    how = ("--runner", "replay", "--records", "r.jsonl", "--budget", "2h")
    return "search", "a.toml", *how


@pytest.mark.parametrize("lost", ["stdout", "stderr"])
@pytest.mark.parametrize("shape", ["text", "json"])
def test_a_search_goes_on_without_a_reader(project, replayed, lost, shape):
    root, pipe = project(), closed_pipe()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, lost: pipe}
    how = ("--output-format", shape)
    said = spawn(*replayed, *how, folder=root, capture_output=False, **streams)
    os.close(pipe)
    assert said.returncode == 0
    assert (root / "a.tuned.toml").exists()
    assert len(list(root.glob(".fp8tune/*/report.html"))) == 1
    notes = [] if lost == "stderr" else said.stderr.decode().splitlines()
    assert notes.count(UNREAD) == (lost == "stdout")


@pytest.mark.parametrize("lost", ["stdout", "stderr"])
def test_a_search_on_a_full_disk_says_so_at_the_end(project, replayed, lost):
    root = project()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with open("/dev/full", "w") as full:
        streams[lost] = full
        how = ("--output-format", "json")
        said = spawn(*replayed, *how, folder=root, capture_output=False, **streams)
    told = b"fp8tune: cannot write to stdout: No space left on device\n"
    assert said.returncode == 2
    assert (root / "a.tuned.toml").exists()
    assert lost == "stderr" or said.stderr.endswith(told)


def test_a_table_on_stderr_is_not_in_the_json(project, replayed):
    root = project()
    master, terminal = os.openpty()
    said = spawn(
        *(*replayed, "--output-format", "json"),
        folder=root,
        stdout=subprocess.PIPE,
        stderr=terminal,
        stdin=subprocess.DEVNULL,
        capture_output=False,
    )
    os.close(terminal)
    drawn = os.read(master, 1 << 16)
    os.close(master)
    assert json.loads(said.stdout)["output"] == "a.tuned.toml"
    assert b"your config" in drawn
