"""Name the CPU of this machine."""

from __future__ import annotations

import platform
from pathlib import Path


def name() -> str:
    """Return the CPU's name with family and model, as in /proc/cpuinfo."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip(): value.strip() for key, _, value in reversed(list(pairs))}
    model = fields.get("model name", "unknown")
    if "cpu family" not in fields:
        return model
    return f"{model} (family {fields['cpu family']}, model {fields['model']})"
