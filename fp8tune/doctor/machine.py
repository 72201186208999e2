"""Look at this machine: the driver, the environment, and torch in its own process."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.extras import SEARCH, TRIALS
from fp8tune.facts.versions import packages
from fp8tune.runners import driver, probe
from fp8tune.runners.builtin import reduce
from fp8tune.runners.gpu import Gpu, Process, able_to_compute, allocator

PACKAGES = (*SEARCH, *TRIALS, "nvidia-ml-py", "triton")
"""Packages that the report lists."""
COMPILERS = ("c++", "g++", "clang++")
SHARED = "/dev/shm"  # noqa: S108
"""Where processes of a machine share memory."""
RESOLVE_S = 5.0
"""How long to wait for a name server [s]."""


class Ranks(NamedTuple):
    """What trials and training runs of several ranks need.

    ``reduced`` says how two ranks added numbers (``gloo in 0.1 s``) or is empty;
    ``failed`` says why they did not. ``shared_gib`` is the size of ``SHARED``, ``None``
    if there is none. ``unresolved`` are host names that have no address, as
    ``NAME=VALUE``.
    """

    reduced: str = ""
    failed: str = ""
    shared_gib: float | None = None
    unresolved: tuple[str, ...] = ()
    torchrun: str = ""


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
    ranks: Ranks = Ranks()


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
        _ranks(device, gpu.visible, works=bool(torch[0]) and not torch[1][0]),
    )


def _ranks(device: str, gpus: int, *, works: bool) -> Ranks:
    """Return what several ranks have here; two are tried where two can run."""
    reduced, failed = "", ""
    if works and (device == "cpu" or gpus > 1):
        reduced, failed = reduce.try_two(device)
    return Ranks(
        reduced,
        failed,
        shared_gib(),
        tuple(unresolved(os.environ, socket.gethostname())),
        torchrun(sys.executable),
    )


def shared_gib(path: str = SHARED) -> float | None:
    """Return the size of the file system for shared memory [GiB]."""
    with suppress(OSError):
        return shutil.disk_usage(path).total / 2**30
    return None


def unresolved(environment: Mapping[str, str], host: str) -> list[str]:
    """Return the names by which ranks find each other and that have no address."""
    names = {"hostname": host, "localhost": "localhost"}
    if address := environment.get("MASTER_ADDR", ""):
        names["MASTER_ADDR"] = address
    return [f"{what}={name}" for what, name in names.items() if not resolves(name)]


def resolves(name: str) -> bool:
    """Return whether a name has an address, as far as known after ``RESOLVE_S``."""
    found: list[object] = []

    def ask() -> None:
        with suppress(OSError, UnicodeError):
            found.extend(socket.getaddrinfo(name, None))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(RESOLVE_S)
    return bool(found)


def torchrun(python: str) -> str:
    """Return the path of torchrun: beside this Python, else of the PATH."""
    own = Path(python).with_name("torchrun")
    return str(own) if own.exists() else shutil.which("torchrun") or ""


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
