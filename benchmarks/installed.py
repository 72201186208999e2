"""fp8tune as users have it, and what it is compared with, in a fresh environment."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.process import ROOT, must, run

PEERS = ("check-jsonschema", "taplo", "tombi")


class Installed(NamedTuple):
    """A virtual environment with fp8tune's wheel, and its versions by package."""

    folder: Path
    versions: dict[str, str]

    @property
    def python(self) -> str:
        """The environment's interpreter."""
        return str(self.folder / "bin" / "python")

    def find(self, program: str) -> str:
        """Where a program is: in the environment, else on PATH, else empty."""
        inside = self.folder / "bin" / program
        return str(inside) if inside.exists() else shutil.which(program) or ""


def install(folder: Path) -> Installed:
    """Build the wheel and install it, byte-compiled, with the peers that there are."""
    wheels, venv = folder / "wheels", folder / "venv"
    build = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps"]
    must([*build, "--wheel-dir", str(wheels)])
    must([sys.executable, "-m", "venv", str(venv)])
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    must([*pip, "install", *map(str, wheels.glob("*.whl"))])
    for peer in PEERS:
        run([*pip, "install", peer])
    listed = json.loads(must([*pip, "list", "--format", "json"]))
    return Installed(venv, {entry["name"]: entry["version"] for entry in listed})
