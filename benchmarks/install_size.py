"""How much `pip install` of fp8tune downloads and unpacks, and how long it takes.

Each variant is downloaded, and then installed from these files into a fresh virtual
environment, so that the time is that of unpacking and not of the network. CPU_TORCH is
a wheel of https://download.pytorch.org/whl/cpu, which pip has to find.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine
from benchmarks.paths import RESULTS, ROOT

CPU_TORCH = "torch==2.13.0+cpu"
VARIANTS = {
    "lint": [".[yaml]"],
    "search, CUDA": [".[search]"],
    "search, CPU": [".[search]", CPU_TORCH],
}


def main() -> None:
    """Measure all variants, print and save."""
    parser = argparse.ArgumentParser(prog="install_size", description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "install_size.json")
    options = parser.parse_args()
    measured = {}
    for name, wanted in VARIANTS.items():
        measured[name] = measure(wanted)
        print(name, measured[name], flush=True)
    data = {"machine": machine.describe(), "installs": measured}
    options.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def measure(wanted: list[str]) -> dict[str, float]:
    """Return megabytes to download and on disk, and seconds to install them."""
    with tempfile.TemporaryDirectory() as folder:
        files, place = Path(folder, "files"), Path(folder, "environment")
        _run(sys.executable, "-m", "pip", "wheel", "--quiet", "-w", files, *wanted)
        _run(sys.executable, "-m", "venv", place)
        before = _bytes(place)
        start = time.monotonic()
        wheels = sorted(files.glob("*.whl"))
        pip = place / "bin" / "pip"
        _run(pip, "install", "--quiet", "--no-deps", "--no-index", *wheels)
        return {
            "download_mb": round(_bytes(files) / 1e6, 1),
            "disk_mb": round((_bytes(place) - before) / 1e6, 1),
            "install_s": round(time.monotonic() - start, 1),
        }


def _run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True, cwd=ROOT)  # noqa: S603


def _bytes(folder: Path) -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


if __name__ == "__main__":
    main()
