"""What a measurement ran on, without names or paths of the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime

from fp8tune.runners import cpu


def describe() -> dict[str, str]:
    """CPU, cores, system, Python and today's date (UTC)."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu.name(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def table(rows: Sequence[tuple[str, ...]], head: tuple[str, ...]) -> str:
    """A Markdown table; columns of numbers are right-aligned."""
    columns = zip(*rows, strict=True)
    rule = tuple("---:" if all(map(_numeric, cells)) else "---" for cells in columns)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _numeric(cell: str) -> bool:
    return not cell or cell.lstrip("-")[:1].isdigit()
