"""What may end in the middle of a search, and what comes of it.

``test_faults.py`` does each of these and compares how many trials were given back;
docs/guides/several-machines.md has them as a table.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """What ends, how many trials are given back, and what happens then."""

    what: str
    given_back: int
    outcome: str


FAULTS = {
    "worker": Fault(
        "`kill -9` of a worker in the middle of a trial",
        1,
        "After six heartbeats the worker is lost. Its trial is planned again.",
    ),
    "worker of a journal": Fault(
        "The same; the study is a journal on a shared folder",
        1,
        "The same.",
    ),
    "requeue": Fault(
        "`scontrol requeue` of a worker's job, as a preemption does",
        1,
        "SIGTERM: the worker gives its trial back at once. Slurm starts the job again, "
        "and the worker joins once more.",
    ),
    "preemption": Fault(
        "A job of a partition with a higher `PriorityTier` takes a worker's GPU",
        1,
        "The same. Slurm starts the job again when the GPU is free.",
    ),
    "scancel": Fault(
        "`scancel` of a worker's job",
        1,
        "SIGTERM: the trial is given back at once. Another job is submitted.",
    ),
    "database": Fault(
        "The PostgreSQL server stops at once, for 15 s with a heartbeat of 1 s",
        0,
        "Every process waits, at most 5 minutes. Trials go on. Nobody counts as lost.",
    ),
    "coordinator": Fault(
        "`kill -9` of `fp8tune search`",
        0,
        "A worker coordinates the search to its end. The same command writes the "
        "answer.",
    ),
    "pause": Fault(
        "`kill -STOP` of a worker for more than six heartbeats, then `kill -CONT`",
        1,
        "Its trial is planned again. It drops its own result and joins once more.",
    ),
    "paused coordinator": Fault(
        "The same with `fp8tune search`",
        0,
        "A worker coordinates the search to its end. The command looks on, and writes "
        "the answer.",
    ),
}


def table() -> str:
    """Return the table of the guide."""
    rows = [
        "| what ends | trials given back | what comes of it |",
        "| --- | --- | --- |",
        *(f"| {what} | {count} | {then} |" for what, count, then in FAULTS.values()),
    ]
    return "\n".join(rows) + "\n"
