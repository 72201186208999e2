"""What ``--slurm`` asks for, and what a job of Slurm still has. Without Slurm."""

import os

import pytest

from fp8tune.search import CannotSearch
from fp8tune.search.slurm import (
    Allocation,
    default_budget,
    parse,
    seconds,
    this_allocation,
)
from tests.each import each


@each(
    ("text", "asked"),
    [
        ("partition=gpu", {"partition": "gpu"}),
        (
            " partition = gpu , exclude=n1,n2,time=1h30m",
            {"partition": "gpu", "exclude": "n1,n2", "time": "90"},
        ),
        (
            "time=1-12,gres=gpu:h100:1",
            {"time": "1-12", "gres": "gpu:h100:1"},
        ),
    ],
)
def test_slurm_options_are_those_of_sbatch(text, asked):
    assert parse(text) == asked


@each(
    ("text", "why"),
    [
        ("", "nothing is asked for; write --slurm partition=gpu,gpus=1,time=30m"),
        ("partition", "'partition' has no value; write"),
        ("partition=,gpus=1", "'partition' has no value; write"),
        ("partiton=gpu", "unknown key 'partiton'; did you mean partition?"),
        ("wrap=rm -rf /", "unknown key 'wrap'; known: partition, gpus, time, account"),
        ("gpus=1,gpus=2", "gpus is given twice"),
        ("comment=a\nb", "comment has a control character"),
        ("time=239s", "time=239s is too short for a trial"),
    ],
)
def test_other_slurm_options_are_refused(text, why):
    with pytest.raises(CannotSearch) as error:
        parse(text)
    assert why in str(error.value)


@each(
    ("text", "expected"),
    [("1-02:03:04", 93784.0), ("2:03:04", 7384.0), ("3:04", 184.0)]
    + [(text, None) for text in ("UNLIMITED", "INVALID", "", "7", "1:2:3:4")],
)
def test_seconds_of_a_time_that_slurm_prints(text, expected):
    assert seconds(text) == expected


SALLOC = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS": "h100:8"}
BATCH = {
    "SLURM_JOB_ID": "7",
    "SLURMD_NODENAME": "n1",
    "SLURM_GPUS_ON_NODE": "4",
    "SLURM_JOB_NUM_NODES": "3",
}


@each(
    ("environment", "allocation", "needs_srun"),
    [
        ({}, None, None),
        ({"SLURM_JOB_ID": "7;rm"}, None, None),
        ({"SLURM_JOB_ID": "7"}, Allocation("7", 1, 0, on_a_node=False), True),
        (SALLOC, Allocation("7", 2, 8, on_a_node=False), True),
        (
            {"SLURM_JOB_ID": "7", "SLURM_GPUS_PER_NODE": "h100:4"},
            Allocation("7", 1, 4, on_a_node=False),
            True,
        ),
        (BATCH, Allocation("7", 3, 12, on_a_node=True), True),
        (
            BATCH | {"SLURM_JOB_NUM_NODES": "1"},
            Allocation("7", 1, 4, on_a_node=True),
            False,
        ),
    ],
)
def test_the_job_of_this_process(environment, allocation, needs_srun):
    read = this_allocation(environment)
    assert read == allocation
    assert (read and read.needs_srun) == needs_srun


@pytest.fixture
def squeue(tmp_path_factory, monkeypatch):
    """Replaces squeue by a shell command."""
    folder = tmp_path_factory.mktemp("programs")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def answers(command):
        (folder / "squeue").write_text(f"#!/bin/sh\n{command}\n")
        (folder / "squeue").chmod(0o755)

    return answers


def test_one_search_for_each_task_of_srun_is_refused():
    with pytest.raises(CannotSearch, match="srun started 8 searches at once"):
        this_allocation(BATCH | {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "8"})


def test_workers_of_an_allocation():
    allocation = Allocation("7", 2, 8, on_a_node=True)
    assert [allocation.workers(gpus) for gpus in (0, 1, 2, 8)] == [8, 8, 4, 1]
    with pytest.raises(CannotSearch, match="has 8 GPUs, and a worker needs 16"):
        allocation.workers(16)
    with pytest.raises(CannotSearch, match="no GPU that Slurm names"):
        allocation._replace(gpus=0).workers(1)
    assert allocation.srun(4, 2)[1:4] == [
        "--jobid=7",
        "--ntasks=4",
        "--gpus-per-task=2",
    ]
    assert not any("gpu" in word for word in allocation.srun(4, 0))


def test_the_budget_leaves_time_to_write_the_answer(squeue):
    allocation = Allocation("7", 1, 1, on_a_node=True)
    squeue("echo 10:00")
    assert default_budget(allocation) == 480
    squeue("echo 10:00:00")
    assert default_budget(allocation) == 36_000 - 1080
    for answer, why in (
        ("echo 2:30", "ends in 150 s, too soon for a search; give --budget to try"),
        ("echo UNLIMITED", "has no time limit: give --budget"),
        ("exit 1", "squeue ended with exit code 1; give --budget"),
    ):
        squeue(answer)
        with pytest.raises(CannotSearch, match=why):
            default_budget(allocation)
