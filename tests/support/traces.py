"""Make Chrome traces of GPU steps: not recorded, only their names are real."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass
class Kernel:
    """A kernel that the operator around it launches, and its time [us]."""

    name: str
    us: float = 100.0
    launch: str = "cudaLaunchKernel"
    category: str = "kernel"


@dataclass
class Op:
    """An operator or annotation, and what is inside of it."""

    name: str
    inside: list[Op | Kernel] = field(default_factory=list)
    dims: list[list[int]] | None = None
    category: str = "cpu_op"
    thread: int | None = None
    us: float = 2.0


def mm(
    m: int, k: int, n: int, kernel: str, name: str = "aten::mm", **options: Any
) -> Op:
    """An operator of a GEMM that launches one kernel."""
    return Op(name, [Kernel(kernel, **options)], [[m, k], [k, n]])


def node(name: str, *inside: Op | Kernel) -> Op:
    """A node of the backward pass, in the thread of the autograd engine."""
    whole = f"autograd::engine::evaluate_function: {name}"
    return Op(whole, [Op(name, list(inside))], thread=2)


def step(number: int, *inside: Op | Kernel) -> Op:
    """A step of the profiler's schedule."""
    return Op(f"ProfilerStep#{number}", list(inside), category="user_annotation")


class _Layout:
    """Puts operators, launches and kernels on the timeline."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now, self.gpu, self.correlation = 1000.0, 0.0, 0

    def add(self, item: Op | Kernel, thread: int = 1) -> None:
        """Put an item after the last one."""
        if isinstance(item, Kernel):
            self._kernel(item, thread)
            return
        start, thread = self.now, item.thread or thread
        event = self._event(item.category, item.name, start, 0.0, 100, thread)
        if item.dims is not None:
            event["args"] |= {"Input Dims": item.dims}
        self.now += item.us / 2
        for inner in item.inside:
            self.add(inner, thread)
        self.now += item.us / 2
        event["dur"] = self.now - start

    def _kernel(self, kernel: Kernel, thread: int) -> None:
        self.correlation += 1
        call = "cuda_driver" if kernel.launch.startswith("cuL") else "cuda_runtime"
        event = self._event(call, kernel.launch, self.now, 2.0, 100, thread)
        event["args"]["correlation"] = self.correlation
        self.now += 2.0
        self.gpu = max(self.gpu, self.now)
        event = self._event(kernel.category, kernel.name, self.gpu, kernel.us, 0, 7)
        event["args"]["correlation"] = self.correlation
        self.gpu += kernel.us

    def _event(
        self, category: str, name: str, ts: float, dur: float, pid: int, tid: int
    ) -> Event:
        event: Event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": pid,
            "tid": tid,
        }
        event |= {"ts": ts, "dur": dur, "args": {}}
        self.events.append(event)
        return event


def events(*items: Op | Kernel, only: set[str] | None = None) -> list[Event]:
    """The events of operators one after the other; ``only``: of these categories."""
    layout = _Layout()
    for item in items:
        layout.add(item)
    return [each for each in layout.events if not only or each["cat"] in only]


def write(path: Path, *items: Op | Kernel, only: set[str] | None = None) -> None:
    """Write a trace as rank 3 of 8 on H100 would."""
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
        "traceEvents": events(*items, only=only),
    }
    path.write_text(json.dumps(document))
