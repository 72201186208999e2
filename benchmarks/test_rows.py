"""Results that are written case by case: cut off, gone on with, failed."""

import json
import os
import signal
import subprocess
import sys
import time

from benchmarks.memory_errors import measured
from benchmarks.paths import ROOT, python_path
from benchmarks.rows import Rows

H100 = {"gpu": "H100", "torch": "2.11", "date": "2026-11-28"}


def test_what_was_measured_alike_is_not_measured_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = Rows(path, H100)
    rows.run("a", lambda: {"ms": 1.0})
    rows.run("b", lambda: 1 / 0)
    assert rows.failed == ["b"]
    with path.open("a") as file:
        file.write('{"name": "c", "ab')  # a process that was killed while it wrote

    later = Rows(path, H100 | {"date": "2026-11-29"})
    assert later.by_name == rows.by_name
    assert later.run("a", lambda: {"ms": 9.0}) == {"ms": 1.0}
    assert later.run("b", lambda: {"ms": 2.0}) == {"ms": 2.0}
    assert later.failed == []
    assert Rows(path, H100 | {"gpu": "H200"}).by_name == {}
    lines = path.read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a", "b", "b"]


CASES = """
import sys, time
from pathlib import Path
from benchmarks.rows import Rows, end_by_sigterm
end_by_sigterm()
rows = Rows(Path(sys.argv[1]), {})
for number in range(3):
    rows.run(str(number), lambda: {"ms": number} if number < 2 else time.sleep(600))
"""


def test_sigterm_loses_no_finished_case(tmp_path):
    path = tmp_path / "rows.jsonl"
    command = [sys.executable, "-c", CASES, str(path)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while time.monotonic() < end and not (
        path.exists() and path.read_text().count("\n") == 2
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) != 0
    assert Rows(path, {}).by_name == {"0": {"ms": 0}, "1": {"ms": 1}}


def test_workers_keep_the_inherited_path(tmp_path, monkeypatch):
    (tmp_path / "installed_elsewhere.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert python_path(ROOT) == f"{ROOT}{os.pathsep}{tmp_path}"
    script = "import benchmarks, installed_elsewhere; print(input())"
    command = [sys.executable, "-c", script]
    assert measured(command, [{"name": "a"}]) == [{"name": "a"}]
    monkeypatch.delenv("PYTHONPATH")
    assert python_path(ROOT) == str(ROOT)
