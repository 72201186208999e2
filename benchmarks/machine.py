"""What a measurement ran on, without names or paths of the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path


def describe() -> dict[str, str]:
    """CPU, cores, system, Python and today's date (UTC)."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def cpu() -> str:
    """The CPU's name with family and model, as Linux says it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    pairs = (line.partition(":") for line in text.splitlines())
    said = {key.strip(): value.strip() for key, _, value in reversed(list(pairs))}
    name = said.get("model name", "unknown")
    if "cpu family" not in said:
        return name
    return f"{name} (family {said['cpu family']}, model {said['model']})"


def table(rows: Sequence[tuple[str, ...]], head: tuple[str, ...]) -> str:
    """A Markdown table; columns of numbers are right-aligned."""
    columns = zip(*rows, strict=True)
    rule = tuple("---:" if all(map(_numeric, cells)) else "---" for cells in columns)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _numeric(cell: str) -> bool:
    return not cell or cell.lstrip("-")[:1].isdigit()
