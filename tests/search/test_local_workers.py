"""Worker processes of this machine, and which GPUs each of them gets."""

import os
import signal
import socket
import sys
import time

import pytest

from fp8tune.search import CannotSearch
from fp8tune.search.local_workers import (
    LocalWorkers,
    gpus_of_workers,
)
from tests.each import each

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
FAILS = [sys.executable, "-c", "raise SystemExit('no GPU here')"]


def workers(folder, command, said):
    return LocalWorkers(command, "study.journal", str(folder), ["0", "1"], said.append)


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_worker_that_was_killed_is_started_again(tmp_path):
    said = []
    both = workers(tmp_path, SLEEPS, said)
    both.start()
    first = both._processes[0]
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert both.poll() == ""
    again = both._processes[0].pid
    name = f"{socket.gethostname()} GPU 0"
    assert said == [f"{name} was killed (signal 9); process {again} takes its place"]
    assert all(process.poll() is None for process in both._processes)
    both.stop()
    assert all(process.poll() is not None for process in both._processes)


def test_workers_that_cannot_take_part_are_not(tmp_path):
    said = []
    both = workers(tmp_path, FAILS, said)
    both.start()
    wait_for(lambda: all(process.poll() is not None for process in both._processes))
    assert both.poll().startswith("all workers ended: no GPU here (their output is in ")
    assert said == []


def test_a_worker_that_fails_is_named_once_while_others_work(tmp_path):
    command = "import os, time; os.environ['CUDA_VISIBLE_DEVICES'] == '1' or time.sleep"
    fails = f"{command}(600); raise SystemExit('no GPU here')"
    said = []
    both = workers(tmp_path, [sys.executable, "-c", fails], said)
    both.start()
    wait_for(lambda: both._processes[1].poll() is not None)
    assert [both.poll(), both.poll()] == ["", ""]
    log = tmp_path / "workers" / "worker-1.log"
    name = f"{socket.gethostname()} GPU 1"
    assert said == [f"{name} ended: no GPU here (its output is in {log})"]
    both.stop()


@each(
    ("named", "count", "ranks", "shares"),
    [
        ("0,1,2,3", -1, 1, ["0", "1", "2", "3"]),
        ("0,1,2,3", -1, 2, ["0,1", "2,3"]),
        ("0,1,2", 1, 2, ["0,1"]),
        ("all", -1, 1, ["4", "GPU-5"]),
        ("", 2, 1, ["4", "GPU-5"]),
    ],
)
def test_the_gpus_of_workers(monkeypatch, named, count, ranks, shares):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-5")
    assert gpus_of_workers(named, count, "cuda", 9, ranks) == shares


@each(
    ("named", "count", "ranks", "why"),
    [
        ("0,1", 3, 1, "3 workers of 1 GPU need more than the 2 GPUs here"),
        ("0,1,2", -1, 4, "1 worker of 4 GPUs need more than the 3 GPUs here"),
        ("0,0", -1, 1, "--gpus 0,0: a GPU is named twice"),
    ],
)
def test_gpus_that_cannot_be_had(named, count, ranks, why):
    with pytest.raises(CannotSearch, match=why):
        gpus_of_workers(named, count, "cuda", 3, ranks)


def test_the_gpus_that_torch_sees_are_numbered(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus_of_workers("all", -1, "cuda", 3) == ["0", "1", "2"]


def test_workers_on_a_cpu_share_it():
    assert gpus_of_workers("", 2, "cpu", 0) == [None, None]
