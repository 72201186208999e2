"""What is here: asked of the driver, the environment, and a process of its own."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from fp8tune.runners import smi
from fp8tune.runners.process import listen, own
from fp8tune.runners.smi import Process

PACKAGES = ("numpy", "optuna", "rich", "torch", "torchao", "triton")
PROBE = own("fp8tune.doctor.probe")
PROBE_S = 180.0
"""How long torch may take [s]; some cluster file systems need minutes."""
SILENCE_S = 90.0
COMPILERS = ("c++", "g++", "clang++")


class Machine(NamedTuple):
    """What was found; what is unknown is empty.

    ``driver`` is the GPU's row of nvidia-smi, ``probe`` what the process that imports
    torch has said, ``stopped`` the stage in which that ended and how, ``failure`` why
    nvidia-smi has no row.
    """

    python: str
    driver: dict[str, str]
    processes: tuple[Process, ...]
    packages: dict[str, str]
    probe: dict[str, Any]
    stopped: tuple[str, str]
    compiler: str
    slurm: str
    failure: str = ""


def look(device: str) -> Machine:
    """Look around; takes as long as importing torch, ``PROBE_S`` at most."""
    cuda = device == "cuda"
    fields = ("name", "memory.total", "driver_version", "compute_cap")
    gpus = smi.ask("gpu", fields) if cuda else []
    packages = {name: _version(name) for name in PACKAGES}
    said, stopped = ask_torch(device) if packages["torch"] else ({}, ("", ""))
    return Machine(
        platform.python_version(),
        gpus[0] if gpus else {},
        tuple(smi.processes()) if gpus else (),
        packages,
        said,
        stopped,
        next(filter(None, map(shutil.which, COMPILERS)), ""),
        slurm(os.environ, bool(shutil.which("sbatch"))),
        smi.failure() if cuda and not gpus else "",
    )


def slurm(environment: Any, installed: bool) -> str:
    """``job ID``, ``no job`` on a login node of a cluster, ``""`` without Slurm."""
    job = environment.get("SLURM_JOB_ID", "")
    if job:
        return f"job {job}"
    return "no job" if installed else ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def ask_torch(
    device: str, probe: Sequence[str] = PROBE, silence: float = SILENCE_S
) -> tuple[dict[str, Any], tuple[str, str]]:
    """What the probe has said, and the stage in which it ended and how."""
    stages = dict.fromkeys(("start", "torch", "device", "torchao", "fp8"), silence)
    heard = listen([*probe, device, str(os.getpid())], stages, PROBE_S)
    said: dict[str, Any] = {}
    for event in heard.events:
        said |= event
    failed = said.pop("failed", None)
    said.pop("stage", None)
    if heard.ended == "late":
        return said, (heard.stage, f"no answer within {heard.seconds:.0f} s")
    if isinstance(failed, dict):
        return said, (heard.stage, f"{failed.get('error')}: {failed.get('message')}")
    if heard.code != 0:
        return said, (heard.stage, f"ended with code {heard.code}")
    return said, ("", "")
