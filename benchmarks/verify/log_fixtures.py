"""Record the logs that tests of ``fp8tune verify`` read.

``python -m benchmarks.verify.log_fixtures TRAINER PYTHON [--checkout FOLDER]
[--output FOLDER]`` runs every case of one trainer on the CPU, a few steps of a tiny
model, and keeps what it printed as ``TRAINER-CASE.log``. PYTHON has what the trainer
needs; KempnerForge and LLaMA-Factory are read from a checkout. The first lines of a log
say what ran. Left out are lines that name a folder of libraries, which are warnings of
other packages, and the folder of the run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.paths import ROOT, python_path

CASES = {
    "kempnerforge": ("bf16", "fp8", "fp8_filtered", "nan"),
    "torchtitan": ("bf16", "fp8", "fp8_filtered"),
    "transformers": ("bf16", "fp8", "fp8_bf16"),
    "llama_factory": ("bf16", "fp8"),
}
PACKAGES = ("torch", "torchao", "torchtitan", "transformers", "accelerate")
ENVIRONMENT = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29617",
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
OF_LIBRARIES = ("site-packages", "/lib/python", "_pytree.py", "torch.set_vital")
"""What a line names that a library prints about itself."""


def main() -> None:
    """Run all cases of a trainer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trainer", choices=CASES)
    parser.add_argument("python", type=Path)
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--output", type=Path, default=ROOT / "tests" / "data" / "logs")
    given = parser.parse_args()
    for case in CASES[given.trainer]:
        log = record(given.trainer, case, given.python, given.checkout)
        path = given.output / f"{given.trainer}-{case}.log"
        path.write_bytes(log)
        print(f"{path.name}: {len(log)} bytes")


def record(trainer: str, case: str, python: Path, checkout: Path | None) -> bytes:
    """Run one case; what it printed, below lines that say what ran."""
    command = [
        str(python.absolute()),
        "-m",
        "benchmarks.verify.log_runs",
        trainer,
        case,
    ]
    if checkout:
        command.append(str(checkout.resolve()))
    with tempfile.TemporaryDirectory() as folder:
        run = ended(command, folder)
        converted = (Path(folder) / "converted").read_text()
    lines = trimmed(
        run.stdout, [folder, *([str(checkout.resolve())] if checkout else [])]
    )
    head = [
        f"# {trainer}, {case}: {versions(python)}{revision(checkout)}",
        f"# python -m benchmarks.verify.log_runs {trainer} {case}",
        f"# exit code: {run.returncode}",
        f"# modules that torchao converted: {converted}",
    ]
    return b"".join(f"{line}\n".encode() for line in head) + b"".join(lines)


def ended(command: list[str], folder: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run a trainer as one rank on the CPU; errors go to its output."""
    return subprocess.run(  # noqa: S603 - the command is ours
        command,
        cwd=folder,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": python_path(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )


def trimmed(output: bytes, folders: list[str]) -> list[bytes]:
    """Return the lines without those of libraries, and without the run's folders."""
    kept: list[bytes] = []
    of_library = False
    for line in _lines(output):
        indented = line.startswith(b"  ") and b": " not in line
        of_library = any(name.encode() in line for name in OF_LIBRARIES) or (
            of_library and indented
        )
        if not of_library:
            for folder in folders:
                line = line.replace(folder.encode(), b"...")
            kept.append(line)
    return kept


def _lines(output: bytes) -> list[bytes]:
    """Return lines that end with a line feed, progress bars within them."""
    return [line + b"\n" for line in output.rstrip(b"\n").split(b"\n")]


def versions(python: Path) -> str:
    """Return the versions of what ran."""
    code = f"""
import importlib.metadata as metadata, sys
for name in {PACKAGES}:
    try:
        print(name, metadata.version(name), end=", ")
    except metadata.PackageNotFoundError:
        pass
print("Python", sys.version.split()[0])
"""
    command = [str(python.absolute()), "-c", code]
    return subprocess.check_output(command, text=True).strip()  # noqa: S603


def revision(checkout: Path | None) -> str:
    """Return the commit of a checkout."""
    if not checkout:
        return ""
    command = ["git", "-C", str(checkout), "rev-parse", "--short=9", "HEAD"]
    return ", commit " + subprocess.check_output(command, text=True).strip()  # noqa: S603


if __name__ == "__main__":
    main()
