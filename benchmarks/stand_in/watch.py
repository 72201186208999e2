"""What a program's training steps do, seen in the same way whoever takes them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from tests.support.live_bytes import MARK, LiveBytes

PHASES = ("forward", "backward", "clip", "optimizer")
"""Of a step: the model and its loss, the backward pass, clipping, and the update."""
SPACES = ("aten::", "c10d::", "fsdp::", "_c10d_functional::")
"""Operators that are counted: torch's own."""


class Watch:
    """Losses, gradient norms and times of steps; if profiled, memory and operators.

    A step ends where the next one begins, so its time includes what the program does
    between steps. ``cpu_ms`` is the time that the process's threads computed.
    """

    def __init__(self, device: str, *, profiled: bool) -> None:
        self.device = device
        self.losses: list[float] = []
        self.norms: list[float] = []
        self.began: list[tuple[float, float]] = []
        self.live = LiveBytes("build") if profiled and device == "cpu" else None
        self.counts: dict[str, int] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Watch:
        torch: Any = import_module("torch")
        hooks: Any = import_module("torch.optim.optimizer")
        self._around(torch.Tensor, "backward", "backward", "data")
        self._around(torch.nn.utils, "clip_grad_norm_", "clip", "clip")
        hook = hooks.register_optimizer_step_pre_hook(
            lambda *_: self.enter("optimizer")
        )
        self._undo.callback(hook.remove)
        if self.live:
            collect_outside()
            self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._undo.close()
        if self.live:
            self.live.__exit__(*error)
            self.counts = self._counted(len(self.losses) - 1)

    def _around(self, owner: Any, name: str, before: str, after: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            self.enter(before)
            found = real(*arguments, **options)
            self.enter(after)
            return found

        setattr(owner, name, watched)
        self._undo.callback(setattr, owner, name, real)

    def enter(self, phase: str) -> None:
        """A phase begins."""
        if self.live:
            self.live.enter(phase)

    def know(self, model: Any) -> None:
        """The model that is trained."""
        model.register_forward_pre_hook(lambda *_: self.enter("forward"))

    def step_begins(self) -> None:
        """The next step begins."""
        if self.device == "cuda":
            torch: Any = import_module("torch")
            torch.cuda.synchronize()
            if not self.began:
                torch.cuda.reset_peak_memory_stats()
        self.began.append((time.perf_counter(), time.process_time()))
        self.enter("step")

    def step_ends(self, loss: float, norm: float) -> None:
        """The step has updated the weights."""
        self.losses.append(float(loss))
        self.norms.append(float(norm))
        self.enter("end")

    def seen(self) -> dict[str, Any]:
        """What was seen, as JSON can hold it."""
        both = zip(self.began, self.began[1:], strict=False)
        took = [[(b - a) * 1e3 for a, b in zip(*pair, strict=True)] for pair in both]
        found: dict[str, Any] = {
            "device": self.device,
            "losses": self.losses,
            "norms": self.norms,
            "wall_ms": [wall for wall, _ in took],
            "cpu_ms": [cpu for _, cpu in took],
        }
        if self.live:
            found["peaks"] = {phase: self.live.peaks.get(phase, 0) for phase in PHASES}
            found["counts"] = self.counts
        elif self.device == "cuda":
            torch: Any = import_module("torch")
            found["peaks"] = {"step": torch.cuda.max_memory_allocated()}
            found["counts"] = {}
        return found

    def _counted(self, step: int) -> dict[str, int]:
        """How often each operator ran in a step, reading data aside."""
        assert self.live
        events = self.live._profile.profiler.kineto_results.events()
        counts: Counter[str] = Counter()
        begun, inside = 0, False
        for event in sorted(events, key=lambda event: event.start_ns()):
            name = event.name()
            if name.startswith(MARK):
                phase = name.removeprefix(MARK)
                begun += phase == "step"
                inside = phase in PHASES
            elif inside and begun == step + 1 and name.startswith(SPACES):
                counts[name] += 1
        return dict(counts)


def collect_outside() -> None:
    """Let FSDP2's collectives on the CPU send copies that torch did not allocate.

    A thread of gloo may be the last to free a tensor, which the profiler does not see.
    """
    torch: Any = import_module("torch")
    fsdp: Any = import_module("torch.distributed.fsdp._fully_shard._fsdp_collectives")

    def outside(tensor: Any) -> Any:
        copied = torch.from_numpy(tensor.view(torch.uint8).numpy().copy())
        return copied.view(tensor.dtype)

    def wrap(kind: Any, output: str, given: str) -> None:
        real: Callable[..., Any] = kind.__call__

        def collect(self: Any, **options: Any) -> None:
            result = options[output]
            found = outside(result)
            staged = {output: found, given: outside(options[given]), "async_op": False}
            real(self, **{**options, **staged})
            result.view(torch.uint8).copy_(found.view(torch.uint8))

        kind.__call__ = collect

    wrap(fsdp.DefaultAllGather, "output_tensor", "input_tensor")
    wrap(fsdp.DefaultReduceScatter, "output_tensor", "input_tensor")
