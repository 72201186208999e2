"""One rank of a run: the trainer's own training script, watched.

``python -m benchmarks.rule_evidence.worker TASK`` with TASK a JSON file. What was
seen is written to ``rank<N>.json`` beside the config.

On the CPU three calls of the trainer insist on CUDA: ``torch.cuda.set_device``, the
device type of the mesh, and the flag with which the ranks agree that a loss is a
number. They get the CPU instead.
"""

from __future__ import annotations

import json
import linecache
import os
import runpy
import sys
import time
import traceback
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from benchmarks.rule_evidence.observe import Observer

MAX_ERROR = 400


class Watcher(Protocol):
    """What looks at a run, and what it has to report of it."""

    def watching(self) -> AbstractContextManager[None]:
        """Watch what runs inside."""

    def seen(self) -> dict[str, Any]:
        """What was seen, as JSON can hold it."""


def main(task: Path, watcher: Watcher | None = None) -> None:
    """Run the script to its end, good or bad, and report."""
    said = json.loads(task.read_text())
    checkout, folder = Path(said["checkout"]), task.parent
    script = checkout / "scripts" / "train.py"
    sys.path.insert(0, str(checkout))
    sys.argv = [str(script), str(folder / "config.toml")]
    if said["device"] == "cpu":
        stand_in_for_cuda()
    observer = watcher or Observer(said["names"])
    report: dict[str, Any] = {"error": "", "failed_at": ""}
    try:
        with observer.watching():
            runpy.run_path(str(script), run_name="__main__")
    except BaseException as error:  # whatever ends the run is what we want to know
        traceback.print_exc()
        report = failure(error, script)
    report |= observer.seen() | {"ended": time.time()}
    place = folder / f"rank{os.environ['RANK']}.json"
    place.with_suffix(".part").write_text(json.dumps(report))
    place.with_suffix(".part").rename(place)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if report["error"] else 0)  # process groups may hang at exit


def failure(error: BaseException, script: Path) -> dict[str, Any]:
    """The error's type and text, and the line of the script that it left."""
    lines = [
        linecache.getline(frame.filename, frame.lineno or 0).strip()
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(script)
    ]
    said = f"{type(error).__name__}: {error}".replace(str(script.parent.parent), "...")
    return {"error": said[:MAX_ERROR], "failed_at": lines[-1] if lines else "import"}


def stand_in_for_cuda() -> None:
    """Answer the calls that insist on CUDA."""
    torch: Any = import_module("torch")
    setup: Any = import_module("kempnerforge.distributed.setup")
    health: Any = import_module("kempnerforge.resilience.health")
    make_mesh = setup.init_device_mesh
    torch.cuda.set_device = lambda _device: None
    setup.init_device_mesh = lambda **said: make_mesh(**{**said, "device_type": "cpu"})
    health.torch = _OnCpu()


class _OnCpu:
    """The torch of one module, whose tensors are on the CPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("torch"), name)

    def tensor(self, data: Any, **_options: Any) -> Any:
        return import_module("torch").tensor(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
