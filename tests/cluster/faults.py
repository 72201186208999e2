"""What may end in the middle of a search, and what comes of it.

``test_faults.py`` does each of these and compares how many trials were given back;
docs/guides/several-machines.md has them as a table.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """What ends, how many trials are lost, and what happens then."""

    what: str
    given_back: int
    outcome: str


FAULTS = {
    "worker": Fault(
        "`kill -9` of a process in the middle of a trial",
        1,
        "After six heartbeats the trial counts as lost. Its setting is tried again.",
    ),
    "worker of a journal": Fault(
        "The same; the study is a journal in its folder",
        1,
        "The same. `--workers` and `--gpus` start another process in its place.",
    ),
    "peer": Fault(
        "Ctrl-C of one of two commands that search one study",
        1,
        "It gives its trial back at once. The other one goes on.",
    ),
    "requeue": Fault(
        "`scontrol requeue` of a job, as a preemption does",
        1,
        "SIGTERM: the process gives its trial back at once. Slurm starts the job "
        "again, and it joins once more.",
    ),
    "preemption": Fault(
        "A job of a partition with a higher `PriorityTier` takes a job's GPU",
        1,
        "The same. Slurm starts the job again when the GPU is free.",
    ),
    "time limit": Fault(
        "A job's time limit is a minute away (SIGUSR1)",
        1,
        "The process gives its trial back and lets Slurm queue the job again.",
    ),
    "scancel": Fault(
        "`scancel` of one of two jobs",
        1,
        "SIGTERM: the trial is given back at once. The other job goes on.",
    ),
    "database": Fault(
        "The PostgreSQL server stops at once, for 15 s with a heartbeat of 1 s",
        0,
        "Every process waits, at most 5 minutes. Trials go on. Nobody counts as lost.",
    ),
    "command": Fault(
        "`kill -9` of the command that started the processes",
        0,
        "They search to the end. The same command writes the answer.",
    ),
    "pause": Fault(
        "`kill -STOP` of a process for more than six heartbeats, then `kill -CONT`",
        1,
        "Its trial is tried again. It drops its own result and goes on.",
    ),
    "paused command": Fault(
        "The same with the command that started the processes",
        0,
        "They go on. The command looks on, and writes the answer.",
    ),
}


def table() -> str:
    """Return the table of the guide."""
    rows = [
        "| what ends | trials lost | what comes of it |",
        "| --- | --- | --- |",
        *(f"| {what} | {count} | {then} |" for what, count, then in FAULTS.values()),
    ]
    return "\n".join(rows) + "\n"
