"""Results that are kept case by case, whatever ends the benchmark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.case_file import CaseFile
from benchmarks.memory_errors import measured

ROOT = Path(__file__).parents[2]
ABOUT = {"gpu": "H100", "torch": "2.11.0", "date": "2026-12-01"}


def fail():
    raise RuntimeError("no memory")


def test_a_failed_case_is_passed_over_and_tried_again(tmp_path):
    path = tmp_path / "results.json"
    first = CaseFile(path, ABOUT)
    first.run("a", lambda: 1)
    first.run("b", fail)
    first.run("c", lambda: 3)
    assert (first.results, first.failures) == ({"a": 1, "c": 3}, {"b": "no memory"})
    again = CaseFile(path, ABOUT | {"date": "2026-12-02"})
    again.run("a", fail)
    again.run("b", lambda: 2)
    assert again.of("abcd") == {"a": 1, "b": 2, "c": 3}
    kept = json.loads(path.read_text())
    assert (kept["results"], kept["failures"]) == ({"a": 1, "c": 3, "b": 2}, {})


def test_results_of_another_gpu_are_not_kept(tmp_path):
    path = tmp_path / "results.json"
    CaseFile(path, ABOUT).put("a", 1)
    assert CaseFile(path, ABOUT | {"gpu": "H200"}).results == {}


def test_a_benchmark_that_is_killed_keeps_what_has_ended(tmp_path):
    path = tmp_path / "results.json"
    program = f"""
import os, pathlib, signal
from benchmarks.case_file import CaseFile
kept = CaseFile(pathlib.Path({str(path)!r}), {{}})
for name in "ab":
    kept.run(name, lambda: name)
kept.run("c", lambda: os.kill(os.getpid(), signal.SIGKILL))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == -9
    assert json.loads(path.read_text())["results"] == {"a": "a", "b": "b"}


def test_cases_count_that_a_command_printed_before_it_failed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "of_the_caller.py").write_text("")
    program = """
import of_the_caller, benchmarks, sys
print(sys.stdin.readline(), end="", flush=True)
raise SystemExit(3)
"""
    found = measured([sys.executable, "-c", program], [{"name": "a"}, {"name": "b"}])
    assert next(found) == {"name": "a"}
    with pytest.raises(subprocess.CalledProcessError) as failed:
        next(found)
    assert failed.value.returncode == 3
