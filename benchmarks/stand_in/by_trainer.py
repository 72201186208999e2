"""One rank of KempnerForge's own script, watched: ``-m ...by_trainer TASK``."""

from __future__ import annotations

import contextlib
import json
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.rule_evidence.observe import look_at
from benchmarks.rule_evidence.worker import main
from benchmarks.stand_in.watch import Watch


class Steps:
    """Watches the script's steps."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside."""
        tracker: Any = import_module("kempnerforge.metrics.tracker").MetricsTracker
        training: Any = import_module("kempnerforge.training")
        look_at(training, "build_optimizer", lambda model, *_: self.watch.know(model))
        look_at(tracker, "start_step", lambda *_: self.watch.step_begins())
        look_at(tracker, "end_step", self._end)
        with self.watch:
            yield

    def _end(self, *_rest: Any, loss: float, grad_norm: float, **_: Any) -> None:
        self.watch.step_ends(loss, grad_norm)

    def seen(self) -> dict[str, Any]:
        """What was seen."""
        return self.watch.seen()


def prepare(task: Path) -> Watch:
    """Let a rank compute as a trial does, and return what will watch it.

    A trial keeps FP8 matmuls of the CPU out of oneDNN, which may only have slow ones.
    """
    torch: Any = import_module("torch")
    said = json.loads(task.read_text())
    if said["device"] == "cpu":
        torch.set_num_threads(1)
        config = tomllib.loads((task.parent / "config.toml").read_text())
        fp8 = config["train"].get("mixed_precision") == "fp8"
        torch.backends.mkldnn.set_flags(not fp8)
    return Watch(said["device"], profiled="profiled" in said["names"])


if __name__ == "__main__":
    place = Path(sys.argv[1])
    main(place, Steps(prepare(place)))
