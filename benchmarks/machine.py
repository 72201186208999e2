"""What a measurement ran on, without names or paths of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from fp8tune.search.machine import cpu_name


def describe(*packages: str) -> dict[str, str]:
    """Today's date (UTC), CPU, cores, system, and versions of Python and packages."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu_name(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def describe_run(checkout: Path, commit: str, device: str) -> dict[str, str]:
    """Machine, versions of torch and torchao, and the trainer's commit."""
    if not commit:
        command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        commit = asked.stdout.strip() or "unknown"
    found = describe("torch", "torchao")
    if device == "cuda":
        found["gpu"] = import_module("torch").cuda.get_device_name()
    return found | {"device": device, "trainer": f"KempnerForge {commit}"}


def table(rows: Sequence[tuple[str, ...]], head: tuple[str, ...]) -> str:
    """A Markdown table; columns of numbers are right-aligned."""
    columns = zip(*rows, strict=True)
    rule = tuple("---:" if all(map(_numeric, cells)) else "---" for cells in columns)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _numeric(cell: str) -> bool:
    return not cell or cell.lstrip("-")[:1].isdigit()
