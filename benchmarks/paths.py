"""Where the repository and its recorded results lie."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def python_path(*folders: Path) -> str:
    """Return the PYTHONPATH of a worker: these folders, then the inherited ones."""
    inherited = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, [*map(str, folders), inherited]))
