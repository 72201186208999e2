"""Searches whose workers, coordinator, jobs or database end in the middle of a trial.

Rehearsals on the CPU by the real command, on real Slurm and PostgreSQL. Whatever ends,
the answer is written, no trial is lost, and none counts twice.
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

from fp8tune.search.members import KIND, MEMBER, SUFFIX
from fp8tune.search.storage import open_storage
from fp8tune.search.study import CLAIMED_BY, STALE
from tests.cluster.conftest import restart_database
from tests.cluster.faults import FAULTS

CONFIG = Path(__file__).parents[2] / "configs" / "rehearsal_cpu.toml"
SLURM = "partition=gpu,gpus=1,time=10m,poll=2s"
BEAT = "1s"
UNNOTICED = "10s"
"""A heartbeat with which a worker counts as lost only after a minute."""
TRIAL = "fp8tune.runners.builtin.worker"
SLOWNESS = int(os.environ.get("FP8TUNE_TEST_SLOWNESS", "1"))
"""How many times as long trials may take, on a machine that has other work."""
PATIENCE_S = 150 * SLOWNESS
"""How long a test waits for anything [s]."""


def budget(seconds):
    return f"{seconds * SLOWNESS}s"


class Rehearsal:
    """A search of a tiny model in a folder, and what its storage says of it."""

    def __init__(self, folder, storage=""):
        folder.mkdir(exist_ok=True)
        shutil.copy(CONFIG, folder / "train.toml")
        self.folder = folder
        self.url = storage
        self.processes = []
        self.known = set()
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
        asked = ["--device", "cpu", "--budget", budget(seconds), "--heartbeat", beat]
        asked += options
        if self.url:
            asked += ["--storage", self.url]
        return self.fp8tune(
            name, "search", "train.toml", "--output-format", "json", *asked
        )

    def worker(self, name):
        """Start a worker as a user does on another machine."""
        said = self.folder / "search.err"
        self.wait(lambda: "waits for workers; " in said.read_text())
        asked = ["worker", "--study", self.study]
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
        files = [*self.folder.glob("*.err"), *self.folder.glob(".fp8tune/*/*.log")]
        files += self.folder.glob(".fp8tune/*/workers/*.log")
        return "\n".join(f"== {file}\n{file.read_text()}" for file in files)

    def stored(self, suffix=""):
        """Return the trials of the study, or of its second study."""
        if not self.url and not os.path.exists(self.place):
            return []
        storage, name = open_storage(self.place, create=False), self.study + suffix
        if name not in optuna.get_all_study_names(storage):
            return []
        return optuna.load_study(study_name=name, storage=storage).get_trials()

    @property
    def members(self):
        """What each registered process said of itself, by number."""
        every = self.stored(SUFFIX)
        members = [trial for trial in every if trial.user_attrs.get(KIND) == MEMBER]
        self.known |= {trial.user_attrs["about"]["pid"] for trial in members}
        return {trial.number: trial.user_attrs["about"] for trial in members}

    def running(self, but=()):
        """Wait until a worker is in the middle of a trial.

        Return the trial's number and the worker's process. ``but`` are numbers of
        trials that are not meant.
        """

        def claimed():
            for trial in self.stored():
                owner = trial.system_attrs.get(CLAIMED_BY)
                if trial.state != TrialState.RUNNING or trial.number in but:
                    continue
                if owner is not None and owner in (members := self.members):
                    process = members[owner]["pid"]
                    return (trial.number, process) if has_torch(process) else None
            return None

        return self.wait(claimed)

    def ends_well(self, search, given_back):
        """Wait for the end of a search, and return its answer.

        ``given_back`` are the numbers of the trials that each of ``FAULTS`` takes.
        """
        code = self.wait(lambda: None if search.poll() is None else [search.poll()])
        assert code == [0], self.said()
        trials = self.stored()
        assert not [t.number for t in trials if not t.state.is_finished()]
        lost = [t.number for t in trials if STALE in t.system_attrs]
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
        (answer,) = (json.loads(text) for text in texts if text)
        assert answer["trials"] == len(counted)
        if password := urlsplit(self.url).password:
            every = [path for path in self.folder.rglob("*") if path.is_file()]
            shown = [p for p in every if password.encode() in p.read_bytes()]
            assert not shown, "the password is in a file or an output"
        assert (self.folder / answer["output"]).exists()
        return answer

    def gives_back(self, number):
        """Wait until a worker says so, long before it would count as lost."""
        said = f"stopped; trial {number} is given back"
        self.wait(lambda: said in self.said(), 30 * SLOWNESS)
        assert STALE in self.stored()[number].system_attrs

    def close(self):
        """End what is left of a test that failed."""
        for process in self.processes:
            process.kill()
            process.wait()
        for process in self.known:
            with contextlib.suppress(OSError):
                if b"fp8tune" in Path(f"/proc/{process}/cmdline").read_bytes():
                    os.kill(process, signal.SIGKILL)


def has_torch(worker):
    """Whether a worker runs a trial whose process has loaded torch."""
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
    jobs = [about["name"] for about in rehearsal.members.values() if "name" in about]
    assert len([name for name in jobs if re.search(r" of job \d+_\d+$", name)]) == 2


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
    logs = rehearsal.folder.glob(".fp8tune/*/srun-*.log")
    assert [log.read_text().count("the search is over") for log in logs] == [1, 1]


def test_a_worker_that_is_killed_loses_only_its_trial(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--workers", "0")
    workers = [rehearsal.worker(name) for name in ("one", "two")]
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
    names = [about.get("name", "") for about in rehearsal.members.values()]
    assert sum(name.endswith(f" of job {job}") for name in names) == 2


def job_of(rehearsal, process):
    name = next(
        about["name"]
        for about in rehearsal.members.values()
        if about["pid"] == process and "name" in about
    )
    return name.rpartition(" ")[2]


def test_a_database_that_restarts_is_waited_for(rehearse, own_server):
    folder, url = own_server
    rehearsal = rehearse(url)
    search = rehearsal.search("--workers", "2", seconds=70)
    rehearsal.running()
    restart_database(folder, 15)
    rehearsal.ends_well(search, {"database": []})
    assert "answers again after" in (rehearsal.folder / "search.err").read_text()


def test_a_coordinator_that_is_killed_is_replaced_by_a_worker(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--workers", "2")
    rehearsal.running()
    search.kill()
    search.wait()
    rehearsal.wait(lambda: "its coordinator is gone" in rehearsal.said())
    rehearsal.wait(lambda: rehearsal.said().count("the search is over") == 2)
    before = [t for t in rehearsal.stored() if STALE not in t.system_attrs]
    again = rehearsal.search("--workers", "2", name="again")
    answer = rehearsal.ends_well(again, {"coordinator": []})
    assert answer["trials"] >= len(before)


def test_a_worker_that_sleeps_too_long_does_not_count(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--workers", "0", seconds=60)
    rehearsal.worker("one")
    rehearsal.worker("two")
    number, process = rehearsal.running()
    os.kill(process, signal.SIGSTOP)
    rehearsal.wait(lambda: STALE in rehearsal.stored()[number].system_attrs)
    os.kill(process, signal.SIGCONT)
    dropped = f"trial {number} was given to another worker; its result is dropped"
    rehearsal.wait(lambda: dropped in rehearsal.said())
    rehearsal.ends_well(search, {"pause": [number]})
    joined = [about["pid"] for about in rehearsal.members.values()]
    assert joined.count(process) == 2


def test_a_coordinator_that_sleeps_too_long_only_looks_on(rehearse, database):
    rehearsal = rehearse(database)
    search = rehearsal.search("--workers", "2", seconds=60)
    rehearsal.running()
    search.send_signal(signal.SIGSTOP)
    rehearsal.wait(lambda: "its coordinator is gone" in rehearsal.said())
    search.send_signal(signal.SIGCONT)
    rehearsal.wait(lambda: "another process coordinates this" in rehearsal.said())
    rehearsal.ends_well(search, {"paused coordinator": []})
    assert rehearsal.said().count("the search is over") == 2


def test_two_folders_search_a_study_of_a_database_as_one(rehearse, database):
    one, other = rehearse(database, "one"), rehearse(database, "other")
    search = one.search()
    one.running()
    second = other.search()
    other.wait(lambda: "another process coordinates this search" in other.said())
    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE_S) == 130
    delete = ["studies", "--delete", one.study, "--storage", database]
    assert other.fp8tune("delete", *delete).wait(PATIENCE_S) == 2
    assert "a search is running on it; end that first" in other.said()
    one.ends_well(search, {})


def test_workers_share_a_journal(rehearse):
    rehearsal = rehearse()
    search = rehearsal.search("--workers", "2")
    number, process = rehearsal.running()
    os.kill(process, signal.SIGKILL)
    rehearsal.ends_well(search, {"worker of a journal": [number]})
