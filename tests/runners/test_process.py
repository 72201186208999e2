"""Workers are heard line by line, held to deadlines, and leave nothing behind."""

import os
import sys
import time

import pytest

from fp8tune.runners.process import listen

CHILD = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {}]); "
SLEEP = "'import time; time.sleep(60)'"


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


@pytest.mark.parametrize("own", [False, True])
def test_children_are_killed_too(tmp_path, own):
    note = tmp_path / "pid"
    code = CHILD.format(SLEEP) + f"open({str(note)!r}, 'w').write(str(p.pid)); "
    if own:  # a process group of its own, in the same session
        code = code.replace(
            "sys.executable, '-c'",
            "sys.executable, '-c', 'import os; os.setpgrp(); ' +",
        ).replace("+, ", "+ ")
    said = heard(code + "import time; time.sleep(60)", total=5.0)
    assert said.ended == "late"
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(note.read_text()), 0)
            time.sleep(0.05)
