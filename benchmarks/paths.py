"""Where the repository and its recorded results lie."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def with_pythonpath() -> dict[str, str]:
    """Return the environment of a process that imports what this one can import."""
    folders = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
