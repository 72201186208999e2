"""Run other programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
RESULTS = ROOT / "benchmarks" / "results"
"""Where recorded results lie."""


class Finished(NamedTuple):
    """A process that ended: exit code, stdout and stderr together."""

    code: int
    output: str


def run(
    command: list[str], folder: Path | None = None, env: dict[str, str] | None = None
) -> Finished:
    """Run a command to its end, with ``env`` on top of the environment."""
    done = subprocess.run(  # noqa: S603 - the commands are ours
        command,
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Finished(done.returncode, done.stdout)


def must(command: list[str], folder: Path | None = None) -> str:
    """The output of a command that has to succeed; raises ``RuntimeError``."""
    done = run(command, folder)
    if done.code:
        raise RuntimeError(f"{command[0]} exited with {done.code}:\n{done.output}")
    return done.output
