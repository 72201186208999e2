"""Ctrl-C once and twice, a batch system's signal, and kill -9, while a trial hangs."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from fp8tune.search.saved_study import load_study, look
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from tests.sample import SMALL_MODEL

ROOT = Path(__file__).parent.parent.parent
CONFIG = (
    SMALL_MODEL
    + """\
[train]
batch_size = 1
grad_accum_steps = 4  # 4 sequences a step
seq_len = 32
compile_model = false
mixed_precision = "fp8"
activation_checkpointing = "full"
"""
)
TRIAL = "fp8tune.runners.builtin.worker"
HANGS = "import time\ntime.sleep(1000)\n"
PATIENCE_S = 600
"""How long to wait for what takes seconds: only a search that hangs takes longer."""
KNOWN = [
    ("baseline", 1, "fp8", 100.0),
    ("bf16-baseline", 1, "bf16", 90.0),
    ("search", 2, "fp8", 150.0),
]


class Command:
    """A search whose trials never get past ``import torch``."""

    def __init__(self, folder, budget="10h"):
        self.folder = folder
        self.prefix = ()
        (folder / "a.toml").write_text(CONFIG)
        for name in ("torch", "torchao"):
            (folder / "broken" / name).mkdir(parents=True)
            (folder / "broken" / name / "__init__.py").write_text(HANGS)
        path = (str(folder / "broken"), str(ROOT), *sys.path)
        # the mark is one of this test's own, to tell its processes from others'
        self.mark = f"stopping-{os.getpid()}-{time.monotonic_ns()}"
        more = {"PYTHONPATH": ":".join(path), "FP8TUNE_TEST": self.mark}
        self.environment = {**os.environ, **more}
        self.arguments = ("search", "a.toml", "--device", "cpu", "--budget", budget)

    def start(self, *arguments, out=subprocess.PIPE, err=subprocess.PIPE):
        program = [*self.prefix, sys.executable, "-m", "fp8tune"]
        command = [*program, *self.arguments, *arguments]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
        )

    def at_work(self, *arguments, **streams):
        """The search, once its trial's process has begun to run its own program.

        Before that (between fork and exec) the trial is not told from the search, and
        is in no list of processes for a moment.
        """
        process = self.start(*arguments, **streams)
        until = time.monotonic() + PATIENCE_S
        while not any(map(_is_trial, self.processes())):
            assert time.monotonic() < until
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.05)
        return process

    def stop(self, process, *signals):
        """Send signals to the search; it ends as stopped. Return what it printed."""
        for number in signals:
            process.send_signal(number)
        printed = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        assert self.left() == []
        return printed

    def kill(self, process):
        """Kill the search; nothing of it may be left."""
        process.kill()
        process.communicate()
        assert self.left() == []

    @property
    def study(self):
        """The folder of the only study."""
        (found,) = (self.folder / ".fp8tune").glob("*/")
        return found

    def tuned(self):
        """The batch and the accumulation of the config that was written."""
        text = (self.folder / "a.tuned.toml").read_text()
        train = tomllib.loads(text)["train"]
        return train["batch_size"], train["grad_accum_steps"]

    def processes(self):
        """Living processes of this command."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                mine = self.mark.encode() in (folder / "environ").read_bytes()
            except OSError:
                continue
            if mine:
                found.append(int(folder.name))
        return found

    def know(self):
        """Put trials into the study, as an earlier run would have."""
        study = str(self.study)
        kept = Study(load_study(study).plan.space, study)
        for stage, batch, precision, speed in KNOWN:
            knobs = {
                "train.batch_size": batch,
                "train.activation_checkpointing": "full",
                "train.compile_model": False,
                "train.mixed_precision": precision,
            }
            kept.add(stage, Record(knobs, "ok", speed, cost_s=1.0))

    def left(self, within=PATIENCE_S):
        """The command lines of processes that do not end in time."""
        until = time.monotonic() + within
        while self.processes() and time.monotonic() < until:
            time.sleep(0.05)
        return [_about(pid) for pid in self.processes()]


def _is_trial(pid):
    with contextlib.suppress(OSError):
        return TRIAL.encode() in Path("/proc", str(pid), "cmdline").read_bytes()
    return False


def _about(pid):
    folder = Path("/proc", str(pid))
    try:
        command = (folder / "cmdline").read_text().split("\0")
        return pid, (folder / "stat").read_text().split()[1:5], command
    except OSError:
        return pid, [], []


@pytest.fixture(autouse=True)
def _not_under_nohup():
    """Let what is started hear SIGHUP, though the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def command(tmp_path):
    made = Command(tmp_path)
    yield made
    for left in made.processes():
        os.kill(left, signal.SIGKILL)


@pytest.fixture
def knowing(command):
    """The command after a kill -9, with three trials in its study."""
    command.kill(command.at_work())
    command.know()
    return command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR2])
def test_once_writes_what_is_known(knowing, number):
    study = knowing.study
    assert len(list(study.glob("fp8tune-*"))) == 1, "of the one that was killed"
    out, err = knowing.stop(knowing.at_work(), number)
    assert "stopping with the best so far" in err
    assert "wrote a.tuned.toml" in out
    assert knowing.tuned() == (2, 2)
    assert len(look(str(study))[1]) == len(KNOWN)
    assert list(study.glob("fp8tune-*")) == []


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_lost_terminal_loses_no_config(knowing, term):
    knowing.environment["TERM"] = term
    master, terminal = os.openpty()
    process = knowing.at_work(out=terminal, err=terminal)
    os.close(terminal)
    os.close(master)  # from here on all that it writes fails
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=PATIENCE_S) == 130
    assert knowing.tuned() == (2, 2)
    assert (knowing.study / "report.html").exists()
    assert knowing.left() == []


@pytest.mark.parametrize("arguments", [(), ("--output-format", "json")])
def test_a_reader_that_the_same_signal_ended_loses_no_config(knowing, arguments):
    reading, writing = os.pipe()
    process = knowing.at_work(*arguments, out=writing, err=writing)
    os.close(writing)
    os.close(reading)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 130
    assert (knowing.folder / "a.tuned.toml").exists()
    assert knowing.left() == []


def test_once_with_nothing_known(command):
    out, _ = command.stop(command.at_work(), signal.SIGINT)
    assert "no trial succeeded" in out
    assert "stopped: the same command continues from here" in out
    assert not (command.folder / "a.tuned.toml").exists()


def test_twice_stops_at_once(knowing):
    knowing.stop(knowing.at_work(), signal.SIGINT, signal.SIGTERM)


def test_a_lost_terminal_is_nothing_under_nohup(command):
    command.prefix = ("nohup",)
    process = command.at_work()
    status = Path("/proc", str(process.pid), "status").read_text()
    ignored = int(re.search(r"^SigIgn:\s*(\w+)$", status, re.MULTILINE)[1], 16)
    assert ignored & 1 << signal.SIGHUP - 1
    command.kill(process)


def test_two_searches_of_one_study(command):
    first = command.at_work()
    second = command.start()
    _, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 2
    assert "another search is running in it; --study a-" in err
    first.kill()
    first.communicate()


def test_the_same_command_joins_in_a_storage_that_several_may_use(command):
    shared = "--storage", "shared.journal"
    first = command.at_work(*shared)
    second = command.start(*shared)
    until = time.monotonic() + PATIENCE_S
    while sum(map(_is_trial, command.processes())) < 2:
        assert time.monotonic() < until
        assert second.poll() is None, second.stderr.read()
        time.sleep(0.05)
    second.kill()
    first.kill()
    assert "joins the search of a-" in second.communicate()[1]
    first.communicate()
    assert command.left() == []


def test_synthetic_data_is_told_though_no_trial_ended(tmp_path):
    process = Command(tmp_path, budget="3s").start("--output-format", "json")
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert json.loads(out)["synthetic_data"] is True


def test_the_budget_ends_trials_that_never_start(tmp_path):
    command = Command(tmp_path, budget="5s")
    process = command.start()
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "cut off by the end of the budget" in out
    assert "no trial ended within 5 s; --budget 1m gives a trial at least" in out
    assert command.left() == []


def test_what_the_machine_lacks_is_tried_again_by_each_command(tmp_path):
    """Four trials tell that nothing starts."""
    command = Command(tmp_path)
    (tmp_path / "broken" / "torch" / "__init__.py").write_text("raise ImportError\n")
    for _ in range(2):
        out, _ = command.start().communicate(timeout=PATIENCE_S)
        assert out.count("\ntrial ") == 4
        doctor = "fp8tune doctor --device cpu says what is missing on this machine\n"
        assert doctor in out
        assert "run the same command again: it retries your config\n" in out
    assert "which has 4 trials; none of them ran, so your config is retried\n" in out
