"""The CPU of this machine."""

from __future__ import annotations

import platform
from pathlib import Path


def name() -> str:
    """The CPU's name with family and model, as Linux says it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    pairs = (line.partition(":") for line in text.splitlines())
    said = {key.strip(): value.strip() for key, _, value in reversed(list(pairs))}
    found = said.get("model name", "unknown")
    if "cpu family" not in said:
        return found
    return f"{found} (family {said['cpu family']}, model {said['model']})"
