"""One rank of a run, which keeps its weights and gradients in a file of its own.

``python -m benchmarks.trainer_faults.rank TASK`` with TASK as for
``rule_evidence.worker``. ``rank<N>.pt`` holds a ``Kept`` as a dict.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.rule_evidence.observe import look_at
from benchmarks.rule_evidence.worker import main

Tensors = dict[str, Any]
"""Tensors by the names of parameters, whole where FSDP or TP has split them."""


class Keeper:
    """Watches one model being trained."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"rank{os.environ['RANK']}.pt"
        self.model: Any = None
        self.start: Tensors = {}
        self.gradients: Tensors = {}
        self.norms: list[dict[str, float]] = []
        self.left: list[str] = []
        self.end: Tensors = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside."""
        training: Any = import_module("kempnerforge.training")
        tracker: Any = import_module("kempnerforge.metrics.tracker")
        utils: Any = import_module("kempnerforge.distributed.utils")
        look_at(training, "build_optimizer", self._model)
        look_at(tracker.MetricsTracker, "start_step", self._start)
        look_at(utils, "clip_grad_norm_", self._clip)
        look_at(tracker.MetricsTracker, "end_step", self._end)
        yield

    def _model(self, model: Any, *_rest: Any, **_options: Any) -> None:
        self.model = model

    def _start(self, *_rest: Any, **_options: Any) -> None:
        self.start = self.start or self._weights()

    def _clip(self, *_rest: Any, **_options: Any) -> None:
        now = self._gradients()
        self.gradients = self.gradients or now
        self.norms.append({name: float(g.norm()) for name, g in now.items()})

    def _end(self, *_rest: Any, **_options: Any) -> None:
        self.left = sorted(n for n, g in self._gradients().items() if bool(g.any()))
        self.end = self._weights()

    def _weights(self) -> Tensors:
        return {name: _whole(p) for name, p in self.model.named_parameters()}

    def _gradients(self) -> Tensors:
        named = self.model.named_parameters()
        return {name: _whole(p.grad) for name, p in named if p.grad is not None}

    def seen(self) -> dict[str, Any]:
        """Write what was kept; the report of the run needs nothing of it."""
        names = ("start", "gradients", "norms", "left", "end")
        torch: Any = import_module("torch")
        torch.save({name: getattr(self, name) for name in names}, self.path)
        return {}


def _whole(tensor: Any) -> Any:
    found = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return found.detach().float().clone()


if __name__ == "__main__":
    task = Path(sys.argv[1])
    main(task, Keeper(task.parent))
