"""``python -m benchmarks.on_gpu.environment FILE``: what a session ran on, as JSON.

Commit of this tree (``COMMIT`` where it has no ``.git``), date, CPU, GPU, driver, and
versions of torch, torchao, triton, CUDA, cuBLAS and optuna.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks import machine
from benchmarks.paths import commit

PACKAGES = ("torch", "torchao", "triton", "optuna", "numpy")


def describe() -> dict[str, str]:
    """Return the environment by name; what is not there is left out."""
    import torch

    now = datetime.now(UTC).strftime("%H:%M:%S")
    found = {"commit": commit(), **machine.describe(), "time": now}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    if torch.cuda.is_available():
        torch.cuda.init()
        found |= {
            "gpu": torch.cuda.get_device_name(),
            "driver": _driver(),
            "cuda": str(torch.version.cuda),
        }
        with suppress(OSError, AttributeError, RuntimeError):
            found["cublas"] = _cublas()
    return found


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with suppress(OSError):
        asked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        return asked.stdout.partition("\n")[0].strip()
    return ""


def _cublas() -> str:
    """Return the version of the cuBLASLt that torch loads, as 13.0.2."""
    import torch

    ones = torch.ones(16, 16, dtype=torch.bfloat16, device="cuda")
    (ones @ ones).sum().item()  # loads the library
    maps = Path("/proc/self/maps").read_text()
    path = re.search(r"\S*libcublasLt\.so[\d.]*", maps)
    if path is None:
        return ""
    library = ctypes.CDLL(path[0])
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    number = library.cublasLtGetVersion()
    # cublas_api.h: 10000 * major + 100 * minor + patch
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(f"{json.dumps(describe(), indent=1)}\n")
