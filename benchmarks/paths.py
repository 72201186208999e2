"""Where the repository and its recorded results lie."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def with_pythonpath(*more: str) -> dict[str, str]:
    """Return the environment of a process that imports this repository and folders.

    Folders that this environment's ``PYTHONPATH`` names stay, after these.
    """
    folders = (str(ROOT), *more, os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
