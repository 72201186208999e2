"""Workers as jobs of a real Slurm cluster; here a worker is any program."""

import os
import shlex
import subprocess
import sys
import textwrap
import time

import pytest

from fp8tune.search import CannotSearch
from fp8tune.search.slurm import Jobs, parse


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Makes the jobs of a study; cancels them after the test."""
    monkeypatch.setattr("fp8tune.search.slurm.POLL_S", 1.0)
    made, storage = [], f"postgresql://me:secret@host{tmp_path}"

    def make(command, count=2, options="partition=gpu,gpus=1,time=30m"):
        notes = []
        (tmp_path / "a study 100%").mkdir(exist_ok=True)
        folder = str(tmp_path / "a study 100%")
        asked = parse(options)
        made.append(Jobs(asked, count, command, storage, folder, notes.append))
        made[-1].notes = notes
        return made[-1]

    yield make
    for each in made:
        if each._array:
            each.stop()


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.2)
    return found


def test_jobs_are_submitted_and_cancelled(jobs, tmp_path):
    made = jobs(["sh", "-c", 'echo "$FP8TUNE_STORAGE" "$0"; sleep 600', "a 'b' $c"])
    made.start()
    (submitted,) = made.notes
    assert submitted.startswith(f"Slurm job {made._array}, 2 workers: sbatch ")
    assert "--requeue --signal=B:USR1@60" in submitted
    assert "--partition=gpu --gpus=1 --time=30" in submitted
    assert "secret" not in submitted
    logs = until(lambda: sorted((tmp_path / "a study 100%").glob("slurm-*.log"))[1:])
    until(lambda: logs[0].read_text())
    assert logs[0].read_text().startswith("postgresql://me:secret@host/")
    assert logs[0].read_text().splitlines()[0].endswith(" a 'b' $c")
    time.sleep(1.5)
    assert made.poll() == ""
    made.stop()
    why = until(made.poll)
    assert why.startswith(f"Slurm job {made._array} has ended; see why: tail '")


def test_what_slurm_refuses_is_said_in_its_words(jobs, monkeypatch):
    with pytest.raises(CannotSearch) as error:
        jobs(["true"], options="partition=none").start()
    assert str(error.value) == (
        "Slurm refused the workers: invalid partition specified: none "
        "Batch job submission failed: Invalid partition name specified"
    )
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        CannotSearch, match="no sbatch on this machine; run this on a machine"
    ):
        jobs(["true"]).start()


WORKER = """
    import os, signal, sys, time

    def leave(*_):
        print("left", flush=True)
        os._exit(3)

    signal.signal(signal.SIGUSR2, leave)
    print(os.environ["SLURMD_NODENAME"], os.environ["FP8TUNE_STORAGE"], flush=True)
    time.sleep(0 if os.environ["SLURM_PROCID"] == "1" else 60)
    sys.exit(1)
"""
INSIDE = """
    import os, sys, time
    from pathlib import Path
    from fp8tune.search.slurm import default_budget, this_allocation
    from fp8tune.search.local_workers import LocalWorkers
    from fp8tune.search.slurm import outside_this_job
    from fp8tune.search.stop import THROUGH_SRUN

    allocation = this_allocation(os.environ)
    print(allocation[1:], round(default_budget(allocation), -1))
    program = [sys.executable, "-c", sys.argv[2]]
    command = [*allocation.srun(allocation.workers(1), 1), *program]
    more = outside_this_job(), THROUGH_SRUN
    workers = LocalWorkers(command, "URL", sys.argv[1], [None], print, *more)
    workers.start()
    log = Path(sys.argv[1], "workers", "worker-0.log")
    while log.read_text().count("URL") < 4 or "code 1" not in log.read_text():
        time.sleep(0.1)
    print(workers.poll() or "the others go on")
    workers.stop()
    print(workers.poll())
"""


def test_a_job_of_two_nodes_runs_workers_on_both(tmp_path):
    asked = ["--nodes=2", "--gpus-per-node=2", "--cpus-per-task=2", "--time=10"]
    script = tmp_path / "inside.py"
    script.write_text(textwrap.dedent(INSIDE))
    words = [sys.executable, str(script), str(tmp_path), textwrap.dedent(WORKER)]
    batch = f"#!/bin/sh\nexec {shlex.join(words)}\n"
    path = os.pathsep.join(map(os.path.abspath, [".", *sys.path]))
    done = subprocess.run(
        ["sbatch", "--wait", f"--output={tmp_path}/out", *asked],
        input=batch.encode(),
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    said = (tmp_path / "out").read_text()
    assert said.startswith("(2, 4, True) 480.0\nthe others go on\nall workers ended: ")
    assert done.returncode == 0
    log = (tmp_path / "workers" / "worker-0.log").read_text().splitlines()
    ran = sorted(line for line in log if "URL" in line)
    assert ran == ["0: node1 URL", "1: node1 URL", "2: node2 URL", "3: node2 URL"]
    assert sorted(line for line in log if "left" in line) == [
        f"{task}: left" for task in (0, 2, 3)
    ]
