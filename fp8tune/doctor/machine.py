"""Look at this machine: the driver, the environment, and torch in its own process."""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from fp8tune.extras import SEARCH, TRIALS
from fp8tune.facts.versions import packages
from fp8tune.runners import driver, probe
from fp8tune.runners.gpu import Gpu, Process, able_to_compute, allocator

PACKAGES = (*SEARCH, *TRIALS, "nvidia-ml-py", "triton")
"""Packages that the report lists."""
COMPILERS = ("c++", "g++", "clang++")


class Machine(NamedTuple):
    """What was found on this machine; unknown values are empty.

    ``failed`` says why the driver reports no GPU, ``unwatched`` why it does not report
    the GPU's state. ``probe`` is the report of the process that imports torch,
    ``stopped`` the stage in which that process ended, and how.
    """

    python: str
    gpu: Gpu
    processes: tuple[Process, ...]
    packages: dict[str, str]
    probe: dict[str, Any]
    stopped: tuple[str, str]
    compiler: str
    slurm: str
    failed: str = ""
    unwatched: str = ""
    allocator: str = ""


def look(device: str) -> Machine:
    """Return what this machine has; importing torch takes most of the time."""
    names = dict.fromkeys((*PACKAGES, *sorted(packages())))
    versions = {name: _version(name) for name in names}
    cuda = device == "cuda"
    with closing(driver.watched() if cuda else driver.Driver(Gpu())) as found:
        seen = found.look()
    torch = probe.ask(device) if versions["torch"] else ({}, ("", ""))
    gpu = found.gpu
    if cuda and not found.answered:
        gpu = probe.gpu(torch[0])
    return Machine(
        platform.python_version(),
        gpu,
        tuple(able_to_compute(seen.processes or ())),
        versions,
        *torch,
        next(filter(None, map(shutil.which, COMPILERS)), ""),
        slurm(os.environ, bool(shutil.which("sbatch"))),
        found.failed,
        found.unwatched,
        allocator() if cuda else "",
    )


def slurm(environment: Any, installed: bool) -> str:
    """Return ``job ID``, ``no job`` on a Slurm login node, or ``""`` without Slurm."""
    job = environment.get("SLURM_JOB_ID", "")
    if job:
        return f"job {job}"
    return "no job" if installed else ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
