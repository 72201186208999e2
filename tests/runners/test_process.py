"""Workers are heard line by line, held to deadlines, and leave nothing behind."""

import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fp8tune.runners import process
from fp8tune.runners.process import run_worker

LONG = 600.0
"""Seconds that only a worker which hangs takes."""


def heard(code, total=LONG, **stages):
    return run_worker([sys.executable, "-c", code], stages, total)


@pytest.fixture
def leaps(monkeypatch):
    """Hear each event with this: the clock then goes on by ten times ``LONG``."""
    leapt = []
    monkeypatch.setattr(
        process, "_now", lambda: time.monotonic() + 10 * LONG * len(leapt)
    )
    return leapt.append


def test_lines_that_are_events():
    said = heard("print('noise'); print('{\"stage\": \"a\"}'); print('{\"step\": 1}')")
    assert said.events == [{"stage": "a"}, {"step": 1}]
    assert (said.ended, said.stage, said.code) == ("exit", "a", 0)


@pytest.mark.parametrize("line", ["{", "[1]", "{}", "{'a': 1}", '{"a": ' + "[" * 99999])
def test_lines_that_are_none(line):
    said = heard(f"print({line!r})")
    assert [event for event in said.events if event] == []
    assert said.ended == "exit"


def test_a_code_is_told():
    assert heard("raise SystemExit(3)").code == 3


def test_the_last_words_of_a_worker_that_ends_meanwhile_are_heard(monkeypatch):
    """On a busy machine it may speak and end between a look for both."""
    look = select.select

    def slow(*files_and_timeout):
        ready = look(*files_and_timeout[:3], 0)
        time.sleep(1.0)
        return ready

    monkeypatch.setattr(process.select, "select", slow)
    assert heard("print('{\"step\": 1}')").events == [{"step": 1}]


def test_the_total_ends_it():
    assert heard("import time; time.sleep(60)", total=0.5).ended == "late"


def test_a_stage_ends_it():
    code = 'import time; print(\'{"stage": "a"}\', flush=True); time.sleep(60)'
    said = heard(code, a=0.5)
    assert (said.ended, said.stage) == ("late", "a")


FIVE_LINES = """
print('{"stage": "a"}', flush=True)
for _ in range(4):
    print('{"step": 1}', flush=True)
"""


def test_the_time_of_a_stage_counts_from_its_last_line(leaps):
    command = [sys.executable, "-c", FIVE_LINES]
    said = run_worker(command, {"a": LONG}, 100 * LONG, on_event=leaps)
    assert (said.ended, len(said.events)) == ("exit", 5)


def test_too_much_output_ends_it():
    said = heard("while True: print('x' * 100000)")
    assert said.ended == "flood"


@pytest.mark.parametrize("first", ["", "import os; os.setpgrp(); "])
def test_children_are_killed_too(tmp_path, first):
    note = tmp_path / "pid"
    child = f"{first}import time; time.sleep(60)"
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        'print(\'{"stage": "a"}\', flush=True)\n'
        "time.sleep(60)\n"
    )
    assert heard(code, a=0.1).ended == "late"
    said = Path("/proc", note.read_text(), "cmdline")
    assert not said.exists() or said.read_bytes() == b""  # gone, or a zombie


SAYS = "import subprocess, sys, time\nprint('{\"%s\": {}}', flush=True)\n"
CHILD = "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"


@pytest.mark.parametrize(
    ("code", "ended", "status"),
    [
        (SAYS % "failed" + CHILD, "exit", 0),
        (SAYS % "step" + CHILD + "raise SystemExit(3)", "exit", 3),
        (SAYS % "done" + "time.sleep(1000)", "mute", -9),
    ],
)
def test_what_keeps_the_output_open_is_not_waited_for(monkeypatch, code, ended, status):
    monkeypatch.setattr(process, "LAST_S", 1.0)
    said = heard(code)
    assert (said.ended, said.code) == (ended, status)


@pytest.mark.parametrize(
    ("then", "needs", "ended", "steps"),
    [("", LONG, "exit", 4), ("import time; time.sleep(60)", 0.1, "late", 1)],
)
def test_what_makes_steps_gets_the_time_that_it_needs(leaps, then, needs, ended, steps):
    code = f"for _ in range(4):\n print('{{\"step\": 1}}', flush=True)\n {then}"
    command = [sys.executable, "-c", code]
    said = run_worker(
        command, {}, LONG, on_event=leaps, extra_seconds=lambda _event: needs
    )
    assert (said.ended, len(said.events)) == (ended, steps)


ORPHAN = """
import os, subprocess, sys
from fp8tune.runners.orphan import COMMAND
word = [*COMMAND, str(os.getpid()), sys.argv[1], sys.executable, "-c", sys.argv[2]]
print(subprocess.Popen(word).pid, flush=True)
sys.stdin.read()
"""
LIVES = "import time; time.sleep(1000)"


@pytest.mark.parametrize("number", ["KILL", "TERM"])
def test_a_program_ends_with_the_process_that_started_it(number):
    command = [sys.executable, "-c", ORPHAN, number, LIVES]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    parent = subprocess.Popen(command, **pipes)
    child = Path("/proc", parent.stdout.readline().decode().strip(), "cmdline")
    own = f"{sys.executable}\0-c\0{LIVES}\0".encode()
    _wait(lambda: child.read_bytes() == own)
    parent.kill()
    parent.communicate()
    _wait(lambda: not child.exists() or child.read_bytes() == b"")


def _wait(holds):
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_trial_does_not_get_the_storage(monkeypatch):
    monkeypatch.setenv("FP8TUNE_STORAGE", "postgresql://me:secret@db/x")
    code = "import json, os; print(json.dumps({'got': dict(os.environ)}))"
    ((got,),) = (event.values() for event in heard(code).events)
    assert "PATH" in got
    assert "FP8TUNE_STORAGE" not in got
