"""Workers as jobs of a real Slurm cluster; here a worker is any program."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from fp8tune.search import CannotSearch
from fp8tune.search.slurm import Jobs, States, parse


@pytest.fixture
def jobs(tmp_path):
    """Makes the jobs of a study; cancels them after the test."""
    made, storage = [], f"postgresql://me:secret@host{tmp_path}"

    def make(command, workers=2, options="partition=gpu,gpus=1,time=30m,poll=1s"):
        notes = []
        (tmp_path / "a study 100%").mkdir(exist_ok=True)
        folder = str(tmp_path / "a study 100%")
        made.append(
            Jobs(parse(options), workers, command, storage, folder, notes.append)
        )
        made[-1].notes = notes
        return made[-1]

    yield make
    for each in made:
        each.stop()


def until(jobs, condition, seconds=40):
    end = time.monotonic() + seconds
    while not condition(jobs):
        assert time.monotonic() < end, (jobs.states, jobs.notes)
        jobs.poll()
        time.sleep(0.2)


def running(count):
    return lambda jobs: jobs.states[:2] == (count, 0)


def test_workers_are_submitted_replaced_and_cancelled(jobs, tmp_path):
    workers = jobs(["sh", "-c", 'echo "$FP8TUNE_STORAGE" "$0"; sleep 600', "a 'b' $c"])
    workers.start()
    until(workers, running(2))
    submitted, *states = workers.notes
    assert states[-1] == "Slurm: 2 running, 0 queued"
    assert submitted.startswith("Slurm job ")
    assert "--partition=gpu --gpus=1 --time=30" in submitted
    assert "secret" not in submitted
    first = submitted.split()[2].rstrip(",")
    subprocess.run(["scancel", f"{first}_0"], check=True)
    until(workers, lambda jobs: jobs.states.ended == 1)
    until(workers, running(2))
    again = next(note for note in workers.notes[1:] if note.startswith("Slurm job"))
    assert again.endswith(", 1 worker in place of those that ended")
    workers.stop()
    left = ["squeue", "--noheader", "--name", workers._name]
    for _ in range(100):
        if not subprocess.run(left, check=True, capture_output=True).stdout:
            break
        time.sleep(0.2)
    else:
        pytest.fail("workers were not cancelled")
    logs = sorted((tmp_path / "a study 100%").glob("slurm-*.log"))
    assert len(logs) == 3
    assert logs[0].read_text().startswith("postgresql://me:secret@host/")
    assert logs[0].read_text().splitlines()[0].endswith(" a 'b' $c")


def test_jobs_that_an_earlier_coordinator_left_are_counted(jobs):
    killed = jobs(["sleep", "600"])
    killed.start()
    taken_up = jobs(["sleep", "600"], workers=3)
    taken_up.start()
    until(taken_up, running(3))
    earlier, submitted, *_ = taken_up.notes
    assert earlier == "2 jobs of an earlier start work on this"
    assert ", 1 worker: sbatch " in submitted


def test_workers_that_end_at_once_are_not_submitted_for_ever(jobs):
    workers = jobs(["false"], workers=2)
    workers.start()
    until(workers, lambda jobs: jobs.poll())
    ended = workers.states.ended
    time.sleep(1.5)
    why = f"the last {ended} jobs of Slurm ended within a minute; see why: tail "
    assert workers.poll().startswith(why)
    assert workers.states == States(ended=ended)


def test_what_slurm_refuses_is_said_in_its_words(jobs, monkeypatch):
    with pytest.raises(CannotSearch) as error:
        jobs(["true"], options="partition=none").start()
    assert str(error.value) == (
        "Slurm refused the workers: invalid partition specified: none "
        "Batch job submission failed: Invalid partition name specified"
    )
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        CannotSearch, match="no squeue on this machine; run this on a machine"
    ):
        jobs(["true"]).start()


INSIDE = """
    import os, sys, time
    from fp8tune.search.allocation import Steps, default_budget, this_allocation

    allocation = this_allocation(os.environ)
    print(allocation[1:], round(default_budget(allocation, os.environ), -1))
    show = 'echo $SLURMD_NODENAME $SLURM_GPUS_ON_NODE $FP8TUNE_STORAGE; sleep 3'
    worker = ["sh", "-c", show]
    steps = Steps(
        allocation, allocation.workers(1), 1, worker, "URL", sys.argv[1]
    )
    steps.start()
    print(steps.poll() or "all run", flush=True)
    steps.stop()
"""


def test_a_job_of_two_nodes_runs_workers_on_both(tmp_path):
    asked = ["--nodes=2", "--gpus-per-node=2", "--cpus-per-task=2", "--time=10"]
    script = tmp_path / "inside.py"
    script.write_text(textwrap.dedent(INSIDE))
    batch = f"#!/bin/sh\nexec {sys.executable} {script} {tmp_path}\n"
    path = os.pathsep.join(map(os.path.abspath, [".", *sys.path]))
    done = subprocess.run(
        ["sbatch", "--wait", f"--output={tmp_path}/out", *asked],
        input=batch.encode(),
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    assert (tmp_path / "out").read_text().splitlines() == [
        "(2, 4, 4, True) 480.0",
        "all run",
    ]
    assert done.returncode == 0
    logs = [path.read_text() for path in tmp_path.glob("srun-*.log")]
    assert sorted(logs) == ["node1 1 URL\n"] * 2 + ["node2 1 URL\n"] * 2
