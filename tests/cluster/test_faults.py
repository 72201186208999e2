"""Searches whose processes, jobs or database end in the middle of a trial.

Rehearsals on the CPU by the real command, on real Slurm and PostgreSQL. Whatever ends,
the answer is written, only running trials are lost, and none counts twice.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import optuna
import pytest
from optuna.trial import TrialState

from fp8tune.search.storage import open_storage
from fp8tune.search.study import PLAN, is_lost
from tests.cluster.conftest import restart_database
from tests.cluster.faults import FAULTS

CONFIG = Path(__file__).parents[2] / "configs" / "rehearsal_cpu.toml"
SLURM = "partition=gpu,gpus=1,time=10m"
BEAT = "1s"
UNNOTICED = "10s"
"""A heartbeat with which a worker counts as lost only after a minute."""
TRIAL = "fp8tune.runners.builtin.worker"
OVER = "nothing is left to run in train-"
SLOWNESS = int(os.environ.get("FP8TUNE_TEST_SLOWNESS", "1"))
"""How many times as long trials may take, on a machine that has other work."""
PATIENCE_S = 150 * SLOWNESS
"""How long a test waits for anything [s]."""


def budget(seconds):
    return f"{seconds * SLOWNESS}s"


class Rehearsal:
    """A search of a tiny model in a folder, and what its storage says of it.

    ``workers`` are the names of the processes that ran trials.
    """

    def __init__(self, folder, storage=""):
        folder.mkdir(exist_ok=True)
        shutil.copy(CONFIG, folder / "train.toml")
        self.folder = folder
        self.url = storage
        self.processes = []
        self.workers = set()
        path = os.pathsep.join(map(os.path.abspath, [".", *sys.path]))
        self.environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def fp8tune(self, name, *arguments, **variables):
        """Start the program; its output goes to files."""
        command = [sys.executable, "-m", "fp8tune", *arguments]
        with (
            (self.folder / f"{name}.out").open("w") as out,
            (self.folder / f"{name}.err").open("w") as err,
        ):
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self.environment, **variables},
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
            )
        self.processes.append(process)
        return process

    def search(self, *options, seconds=40, name="search", beat=BEAT):
        """Start the search."""
        self.budget = budget(seconds)
        asked = ["--device", "cpu", "--budget", self.budget, "--heartbeat", beat]
        asked += options
        if self.url:
            asked += ["--storage", self.url]
        return self.fp8tune(
            name, "search", "train.toml", "--output-format", "json", *asked
        )

    def joins(self, name):
        """Start a process as a user does on another machine."""
        said = self.folder / "search.err"
        self.wait(lambda: "waits for workers; " in said.read_text())
        asked = ["search", "train.toml", "--device", "cpu", "--heartbeat", BEAT]
        asked += ["--budget", self.budget, "--study", self.study]
        return self.fp8tune(name, *asked, FP8TUNE_STORAGE=self.place)

    @property
    def study(self):
        """The name of the study, once there is one."""
        return next((path.name for path in self.folder.glob(".fp8tune/train-*")), "")

    @property
    def place(self):
        """The storage: a URL, or the path of the journal."""
        return self.url or str(self.folder / ".fp8tune" / self.study / "study.journal")

    def wait(self, condition, seconds=PATIENCE_S):
        """Return what a condition returns, as soon as it is something."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, self.said()
            time.sleep(0.1)
        return found

    def said(self):
        """What all programs printed, for a test that fails."""
        files = [*self.folder.glob("*.err"), *self.folder.glob("*.out")]
        files += self.folder.glob(".fp8tune/*/*.log")
        files += self.folder.glob(".fp8tune/*/workers/*.log")
        return "\n".join(f"== {file}\n{file.read_text()}" for file in files)

    def stored(self):
        """Return the trials of the study; note the names of those that ran them."""
        if not self.url and not os.path.exists(self.place):
            return []
        storage, name = open_storage(self.place, create=False), self.study
        if name not in optuna.get_all_study_names(storage):
            return []
        trials = optuna.load_study(study_name=name, storage=storage).get_trials()
        self.workers |= {trial.system_attrs[PLAN].get("worker") for trial in trials}
        return trials

    def running(self, but=()):
        """Wait until a process is in the middle of a trial.

        Return the trial's number and the process. ``but`` are numbers of trials that
        are not meant.
        """

        def begun():
            for trial in self.stored():
                if trial.state == TrialState.RUNNING and trial.number not in but:
                    worker = trial.system_attrs[PLAN]["worker"]
                    process = int(re.search(r" process (\d+)", worker)[1])
                    if has_torch(process):
                        return trial.number, process
            return None

        return self.wait(begun)

    def ends_well(self, search, given_back):
        """Wait for the end of a search, and return its answer.

        ``given_back`` are the numbers of the trials that each of ``FAULTS`` takes.
        """
        code = self.wait(lambda: None if search.poll() is None else [search.poll()])
        assert code == [0], self.said()
        trials = self.stored()
        assert not [t.number for t in trials if not t.state.is_finished()]
        lost = [t.number for t in trials if is_lost(t)]
        assert lost == sorted(chain(*given_back.values())), self.said()
        for fault, numbers in given_back.items():
            assert len(numbers) == FAULTS[fault].given_back
        counted = [t for t in trials if t.number not in lost]
        tried = [str(t.params) for t in counted if t.user_attrs["stage"] == "search"]
        assert sorted(set(tried)) == sorted(tried), "a setting was measured twice"
        names = [(t.user_attrs["stage"], str(t.params)) for t in counted]
        for number in lost:
            again = trials[number].user_attrs["stage"], str(trials[number].params)
            assert again in names, f"trial {number} was lost and not repeated"
        files = self.folder.glob("*.out")
        texts = [file.read_text() for file in files]
        (answer,) = (json.loads(text) for text in texts if text.startswith("{"))
        assert answer["trials"] == len(counted)
        if password := urlsplit(self.url).password:
            every = [path for path in self.folder.rglob("*") if path.is_file()]
            shown = [p for p in every if password.encode() in p.read_bytes()]
            assert not shown, "the password is in a file or an output"
        assert (self.folder / answer["output"]).exists()
        return answer

    def gives_back(self, number):
        """Wait until a process says so, long before it would count as lost."""
        said = f"stopped; trial {number} is given back"
        self.wait(lambda: said in self.said(), 30 * SLOWNESS)
        assert is_lost(self.stored()[number])

    def close(self):
        """End what is left of a test that failed."""
        for process in self.processes:
            process.kill()
            process.wait()
        for worker in filter(None, self.workers):
            process = int(re.search(r" process (\d+)", worker)[1])
            with contextlib.suppress(OSError):
                if b"fp8tune" in Path(f"/proc/{process}/cmdline").read_bytes():
                    os.kill(process, signal.SIGKILL)


def has_torch(worker):
    """Whether a process runs a trial whose process has loaded torch."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_text().split("\0")
            if TRIAL in words and str(worker) in words:
                return "libtorch" in (folder / "maps").read_text()
    return False


@pytest.fixture
def rehearse(tmp_path):
    made = []

    def make(storage="", name=""):
        made.append(Rehearsal(tmp_path / name, storage))
        return made[-1]

    yield make
    for rehearsal in made:
        rehearsal.close()


def test_two_jobs_of_slurm_search_to_the_end(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--slurm", SLURM, "--workers", "2")
    rehearsal.ends_well(search, {})
    tasks = {re.search(r" of job \d+_(\d+)$", name)[1] for name in rehearsal.workers}
    assert tasks == {"0", "1"}


def test_a_job_of_two_nodes_searches_on_both(rehearse, database):
    rehearsal = rehearse(database)
    asked = ["--device", "cpu", "--budget", budget(30), "--workers", "2"]
    command = [sys.executable, "-m", "fp8tune", "search", "train.toml", *asked]
    words = [*command, "--output-format", "json", "--storage", database]
    job = ["--nodes=2", "--cpus-per-task=2", "--time=10", "--wait"]
    search = subprocess.Popen(
        ["sbatch", *job, "--output=search.out", "--error=search.err"],
        cwd=rehearsal.folder,
        env=rehearsal.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    search.stdin.write(f"#!/bin/sh\nexec {shlex.join(words)}\n".encode())
    search.stdin.close()
    rehearsal.processes.append(search)
    rehearsal.ends_well(search, {})
    assert len([*rehearsal.folder.glob(".fp8tune/*/workers/worker-0.log")]) == 1
    assert len(rehearsal.workers) == 2


def test_a_worker_that_is_killed_loses_only_its_trial(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--workers", "0")
    workers = [rehearsal.joins(name) for name in ("one", "two")]
    number, process = rehearsal.running()
    os.kill(process, signal.SIGKILL)
    rehearsal.ends_well(search, {"worker": [number]})
    assert [worker.poll() for worker in workers if worker.pid == process] == [-9]


def test_jobs_that_slurm_takes_away_give_their_trials_back(rehearse, database):
    rehearsal = rehearse(database)
    asked = ["--slurm", SLURM, "--workers", "2"]
    search = rehearsal.search(*asked, seconds=60, beat=UNNOTICED)
    requeued, process = rehearsal.running()
    job = job_of(rehearsal, process)
    subprocess.run(["scontrol", "requeue", job], check=True)
    rehearsal.gives_back(requeued)
    cancelled, process = rehearsal.running(but=[requeued])
    subprocess.run(["scancel", job_of(rehearsal, process)], check=True)
    rehearsal.gives_back(cancelled)
    rehearsal.ends_well(search, {"requeue": [requeued], "scancel": [cancelled]})


def test_a_job_whose_time_limit_is_near_is_queued_again(rehearse, database):
    rehearsal = rehearse(database)
    asked = ["--slurm", SLURM, "--workers", "1"]
    search = rehearsal.search(*asked, seconds=60, beat=UNNOTICED)
    number, process = rehearsal.running()
    job = job_of(rehearsal, process)
    subprocess.run(["scancel", "--batch", "--signal=USR1", job], check=True)
    rehearsal.gives_back(number)
    rehearsal.ends_well(search, {"time limit": [number]})
    assert {name.rpartition(" ")[2] for name in rehearsal.workers} == {job}
    assert len(rehearsal.workers) == 2


def test_a_job_that_makes_way_for_an_urgent_one_comes_back(rehearse, database):
    rehearsal = rehearse(database)
    slurm = SLURM.replace("partition=gpu", "partition=spare")
    asked = ["--slurm", slurm, "--workers", "1"]
    search = rehearsal.search(*asked, seconds=60, beat=UNNOTICED)
    number, process = rehearsal.running()
    job = job_of(rehearsal, process)
    urgent = ["--partition=urgent", "--gpus=4", "--time=2", "--output=/dev/null"]
    subprocess.run(["sbatch", *urgent, "--wrap", "sleep 5"], check=True)
    rehearsal.gives_back(number)
    rehearsal.ends_well(search, {"preemption": [number]})
    names = [name for name in rehearsal.workers if name.endswith(f" of job {job}")]
    assert len(names) == 2


def job_of(rehearsal, process):
    own = f" process {process} of job "
    name = next(name for name in rehearsal.workers if own in name)
    return name.rpartition(" ")[2]


def test_a_database_that_restarts_is_waited_for(rehearse, own_server):
    folder, url = own_server
    rehearsal = rehearse(url)
    search = rehearsal.search("--workers", "2", seconds=70)
    rehearsal.running()
    restart_database(folder, 15)
    rehearsal.ends_well(search, {"database": []})
    assert "answers again after" in (rehearsal.folder / "search.err").read_text()


def test_a_command_that_is_killed_leaves_its_processes_at_work(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--workers", "2")
    rehearsal.running()
    search.kill()
    search.wait()
    rehearsal.wait(lambda: rehearsal.said().count(OVER) == 2)
    before = [t for t in rehearsal.stored() if not is_lost(t)]
    again = rehearsal.search("--workers", "2", name="again")
    answer = rehearsal.ends_well(again, {"command": []})
    assert answer["trials"] >= len(before)


def test_a_process_that_sleeps_too_long_does_not_count(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--workers", "0", seconds=60)
    rehearsal.joins("one")
    rehearsal.joins("two")
    number, process = rehearsal.running()
    os.kill(process, signal.SIGSTOP)
    rehearsal.wait(lambda: is_lost(rehearsal.stored()[number]))
    os.kill(process, signal.SIGCONT)
    dropped = f"trial {number} counts as lost, as this process was silent for too long"
    rehearsal.wait(lambda: dropped in rehearsal.said())
    rehearsal.ends_well(search, {"pause": [number]})


def test_a_command_that_sleeps_too_long_looks_on(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--workers", "2", seconds=60)
    rehearsal.running()
    search.send_signal(signal.SIGSTOP)
    time.sleep(10)
    search.send_signal(signal.SIGCONT)
    rehearsal.ends_well(search, {"paused command": []})


def test_two_folders_search_a_study_of_a_database_as_one(rehearse, database):
    one, other = rehearse(database, "one"), rehearse(database, "other")
    search = one.search()
    first, _ = one.running()
    second = other.search()
    number, _ = one.running(but=[first])
    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE_S) == 130
    assert "the search goes on, this command ends" in other.said()
    one.running(but=[number])
    delete = ["studies", "--delete", one.study, "--storage", database]
    assert other.fp8tune("delete", *delete).wait(PATIENCE_S) == 2
    assert "a search is running on it; end that first" in other.said()
    one.ends_well(search, {"peer": [number]})


def test_workers_share_a_journal(rehearse):
    rehearsal = rehearse()
    search = rehearsal.search("--workers", "2")
    number, process = rehearsal.running()
    os.kill(process, signal.SIGKILL)
    rehearsal.ends_well(search, {"worker of a journal": [number]})
