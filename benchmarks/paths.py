"""Where the repository and its recorded results lie, and its commit."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def python_path(*folders: Path) -> str:
    """Return the PYTHONPATH of a worker: these folders, then the inherited ones."""
    inherited = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, [*map(str, folders), inherited]))


def commit() -> str:
    """Return the commit: ``COMMIT``, else what git says, else ``unknown``."""
    if given := os.environ.get("COMMIT", ""):
        return given
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    with suppress(OSError):
        asked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        return asked.stdout.strip() or "unknown"
    return "unknown"
