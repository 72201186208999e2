"""Trials in the process of the tests, for what does not need a process of its own."""

import json
import time
import warnings

import pytest
import torch

from fp8tune.runners.builtin import runner, worker
from fp8tune.runners.process import WorkerResult


@pytest.fixture
def in_this_process(monkeypatch):
    """Run the worker of a trial here. Importing torch again takes most of a trial.

    What depends on a process is not tested so: deadlines, crashes, what it leaves.
    """
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # the worker sets these two
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

    def run_worker(command, stages, total, errors, hear, needs):
        events = []

        def say(**fields):
            events.append(json.loads(json.dumps({"at": time.time(), **fields})))
            hear(events[-1])

        monkeypatch.setattr(worker, "say", say)
        say(stage="import")
        start = time.monotonic()
        try:
            with warnings.catch_warnings(action="ignore"):  # as in a worker
                worker._run(command[-2])
        except Exception as error:
            say(failed=worker._failure(error))
        finally:
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()
        code = int("failed" in events[-1])
        stage = [event["stage"] for event in events if "stage" in event][-1]
        return WorkerResult(events, "exit", stage, code, time.monotonic() - start)

    monkeypatch.setattr(runner, "run_worker", run_worker)
    return monkeypatch
