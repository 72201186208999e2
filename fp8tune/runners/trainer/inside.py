"""Run a trainer's program in this process, and print a line for each of its steps.

``python inside.py SCRIPT ARGUMENTS`` or ``python inside.py -m MODULE ARGUMENTS`` stands
where the trainer's own command would, behind torchrun too. It runs in the trainer's
Python, which need not have fp8tune: it imports the standard library and torch alone.

A step is the first optimizer step after a backward pass. So accumulated micro-batches
are one step, as are several optimizers, optimizers that step during the backward pass,
and optimizers that a library steps once for each group of parameters. Its time is that
from the previous step, its loss the sum over what its backward passes began with, on
this rank. On a GPU, both are read when the GPU has got there: nothing waits for it.

Only rank 0 prints. With ``FP8TUNE_TRACES`` set to a folder, it leaves a profile of step
``PROFILED`` there. ``verify/logs/inside.toml`` reads the lines.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
import resource
import runpy
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

TRACES = "FP8TUNE_TRACES"
"""Variable that names the folder of the profile; without it there is none."""
PROFILED = 3
"""The step that is profiled: the first two may compile and allocate."""
PR_SET_PDEATHSIG = 1
GIB = 2**30


class Mark:
    """The end of a step: its number, its loss, and when the device got there."""

    def __init__(self, torch: Any, step: int, loss: Any) -> None:
        self.step = step
        self.loss = loss
        self._event: Any = None
        self._at = time.perf_counter()
        if torch.cuda.is_initialized():
            if loss is not None:  # to pinned memory, behind what is queued
                self.loss = loss.to("cpu", non_blocking=True)
            self._event = torch.cuda.Event(enable_timing=True)
            self._event.record()

    def is_reached(self) -> bool:
        """Whether the device has got there."""
        return self._event is None or bool(self._event.query())

    def seconds_since(self, other: Mark) -> float:
        """Return the time since another mark [s]; both are reached."""
        if self._event is None or other._event is None:
            return self._at - other._at
        return float(other._event.elapsed_time(self._event)) / 1e3


class Steps:
    """Watches the backward passes and optimizer steps of this process."""

    def __init__(self, torch: Any, traces: str) -> None:
        self._torch = torch
        self._traces = traces
        self._output = os.dup(1)  # a trainer may point its own stdout elsewhere
        self._ended = 0
        self._backward = False
        self._loss: Any = None
        self._waiting: deque[Mark] = deque()
        self._last: Mark | None = None
        self._profiler: Any = None

    def watch(self) -> None:
        """Begin: every later backward pass and optimizer step is seen."""
        autograd = self._torch.autograd
        optimizers: Any = importlib.import_module("torch.optim.optimizer")
        run = autograd.backward

        @functools.wraps(run)
        def backward(tensors: Any, grad_tensors: Any = None, *a: Any, **k: Any) -> Any:
            self._begin(tensors, grad_tensors)
            return run(tensors, grad_tensors, *a, **k)

        autograd.backward = backward
        optimizers.register_optimizer_step_post_hook(self._end)
        ranks = os.environ.get("WORLD_SIZE", "1")
        self._say(f"torch {self._torch.__version__}, world size {ranks}")

    def _begin(self, tensors: Any, grad_tensors: Any) -> None:
        """Take the loss of a backward pass; a checkpoint's has gradients instead."""
        if not self._backward and not self._ended:
            self._say("first backward pass")
        self._backward = True
        plain = type(tensors) is self._torch.Tensor and tensors.numel() == 1
        if plain and grad_tensors is None:
            loss = tensors.detach()
            self._loss = loss if self._loss is None else self._loss + loss

    def _end(self, *_: Any) -> None:
        """Mark the end of a step; later optimizers of the same step are none."""
        if not self._backward:
            return
        self._backward = False
        self._ended += 1
        self._waiting.append(Mark(self._torch, self._ended, self._loss))
        self._loss = None
        try:
            if self._traces:
                self._profile()
        except Exception as error:  # another profiler runs, or the disk is full
            self._say(f"no profile: {error}")
        self._tell()

    def _tell(self) -> None:
        """Print the steps whose ends the device has reached."""
        while self._waiting and self._waiting[0].is_reached():
            mark = self._waiting.popleft()
            seconds = mark.seconds_since(self._last) if self._last else float("nan")
            loss = float("nan") if mark.loss is None else float(mark.loss)
            self._say(
                f"step {mark.step} | loss {loss:.9g} | {seconds:.9f} s | "
                f"{self._peak_gib():.6f} GiB"
            )
            self._last = mark

    def _peak_gib(self) -> float:
        """Return this process's peak memory: reserved on its GPU, else resident."""
        if self._torch.cuda.is_initialized():
            return float(self._torch.cuda.max_memory_reserved()) / GIB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB

    def _profile(self) -> None:
        """Profile one step, from the end of the step before it."""
        if self._ended == PROFILED - 1:
            self._profiler = self._torch.profiler.profile(record_shapes=True)
            self._profiler.start()
        elif self._ended == PROFILED and self._profiler is not None:
            self._profiler.stop()
            Path(self._traces).mkdir(parents=True, exist_ok=True)
            whole = Path(self._traces, "trace-rank0.json")
            part = whole.with_suffix(".part")
            self._profiler.export_chrome_trace(str(part))
            part.rename(whole)
            self._profiler = None

    def _say(self, text: str) -> None:
        """Print a line of its own, whatever stands in the one before."""
        with contextlib.suppress(OSError):
            os.write(self._output, f"\n[fp8tune] {text}\n".encode())

    def finish(self) -> None:
        """Print the last steps."""
        with contextlib.suppress(Exception):  # a GPU that failed cannot be waited for
            if self._torch.cuda.is_initialized():
                self._torch.cuda.synchronize()
            self._tell()


def end_with_parent() -> None:
    """Have this process killed when its launcher ends, however that ends (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Run the program that the command line names."""
    end_with_parent()
    del sys.argv[0]
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [place for place in sys.path if place != here]
    steps = None
    if os.environ.get("RANK", "0") == "0":
        steps = Steps(importlib.import_module("torch"), os.environ.get(TRACES, ""))
        steps.watch()
    try:
        if sys.argv[0] == "-m":
            del sys.argv[0]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
            runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        if steps:
            steps.finish()


if __name__ == "__main__":
    main()
