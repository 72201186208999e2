"""The commit of this tree."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

from benchmarks.paths import ROOT


def commit() -> str:
    """Return the commit: ``COMMIT``, else what git says, else ``unknown``."""
    if given := os.environ.get("COMMIT", ""):
        return given
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    with suppress(OSError):
        asked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        return asked.stdout.strip() or "unknown"
    return "unknown"
