"""Workers are heard line by line, held to deadlines, and leave nothing behind."""

import sys
import time
from pathlib import Path

import pytest

from fp8tune.runners.process import listen


def heard(code, total=30.0, **stages):
    return listen([sys.executable, "-c", code], stages, total)


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


def test_the_total_ends_it():
    start = time.monotonic()
    said = heard("import time; time.sleep(60)", total=0.5)
    assert said.ended == "late"
    assert time.monotonic() - start < 15


def test_a_stage_ends_it():
    code = 'import time; print(\'{"stage": "a"}\', flush=True); time.sleep(60)'
    said = heard(code, a=0.5)
    assert (said.ended, said.stage) == ("late", "a")
    assert said.seconds < 25


def test_each_line_gives_a_stage_its_time_anew():
    code = (
        'import time\nprint(\'{"stage": "a"}\', flush=True)\n'
        "for i in range(4):\n time.sleep(0.4)\n print('{\"step\": 1}', flush=True)"
    )
    assert heard(code, a=3.0).ended == "exit"


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
        "time.sleep(60)\n"
    )
    assert heard(code, total=5.0).ended == "late"
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
def test_what_keeps_the_output_open_is_not_waited_for(code, ended, status):
    said = heard(code, total=300.0)
    assert (said.ended, said.code) == (ended, status)


SLOW_STEPS = """
import time
for step in range(4):
    time.sleep(0.4)
    print('{"step": %d}' % step, flush=True)
    {then}
"""


@pytest.mark.parametrize(
    ("then", "needs", "ended", "steps"),
    [("pass", 30.0, "exit", 4), ("time.sleep(30)", 0.5, "late", 1)],
)
def test_what_makes_steps_gets_the_time_that_it_needs(then, needs, ended, steps):
    code = SLOW_STEPS.replace("{then}", then)
    command = [sys.executable, "-c", code]
    said = listen(command, {}, 0.7, needs=lambda event: needs * ("step" in event))
    assert (said.ended, len(said.events)) == (ended, steps)
