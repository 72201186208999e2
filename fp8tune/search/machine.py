"""The machine that runs the trials of a search."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune import __version__
from fp8tune.config.reader import Config
from fp8tune.facts.gpus import UnknownGpu, find, is_another, resolve
from fp8tune.facts.memory import GIB
from fp8tune.facts.versions import Match, of_trials, packages
from fp8tune.job import Job, Unknown
from fp8tune.search import CannotSearch
from fp8tune.search.knobs import is_freed
from fp8tune.search.objective import SPEED


class TrialMachine(NamedTuple):
    """A machine on which trials run: on its GPU, or as a rehearsal on its CPU.

    ``name`` is the GPU's or the CPU's, ``driver`` and ``allocator`` are of the GPU.
    ``failure`` says why no GPU is known, ``""`` if there is none. ``gpus`` is how many
    GPUs torch sees.
    """

    device: str
    name: str = ""
    driver: str = ""
    allocator: str = ""
    failure: str = ""
    has_watts: bool = False
    gpus: int = 1

    @property
    def gpu(self) -> str:
        """The driver's name of the GPU; ``""`` in a rehearsal."""
        return self.name if self.device == "cuda" else ""


def target_gpu(
    machine: TrialMachine, asked: str, otherwise: str = "rehearse with --device cpu"
) -> str:
    """Return the name of the GPU asked for, else of the machine's, as in the GPU table.

    ``""`` if the table does not have it. Raises ``CannotSearch`` without a GPU; then
    ``otherwise`` is what to do without one.
    """
    if not machine.name and machine.failure:
        raise CannotSearch(f"{machine.failure}; fix the driver, or {otherwise}")
    if not machine.name:
        node = "run on a GPU node"
        if shutil.which("sbatch"):
            node = "run in a job: srun --gpus=1 --pty fp8tune search ..."
        raise CannotSearch(f"no NVIDIA GPU found; {node}, or {otherwise}")
    try:
        return resolve(asked or machine.name)
    except UnknownGpu:
        return ""


def check_worker_gpu(machine: TrialMachine) -> None:
    """Raise ``CannotSearch`` if trials need a GPU and a worker's machine has none."""
    if machine.device != "cpu" and not machine.name:
        missing = "no NVIDIA GPU found here; start workers on GPU nodes"
        raise CannotSearch(machine.failure or missing)


def check_watts(objective: str, machine: TrialMachine) -> None:
    """Raise ``CannotSearch`` if trials on a machine cannot measure the objective."""
    if objective == SPEED or machine.has_watts:
        return
    if machine.device == "cpu":
        raise CannotSearch(
            f"--objective {objective}: a rehearsal on the CPU cannot measure watts"
        )
    raise CannotSearch(
        f"--objective {objective}: the driver does not count this GPU's energy"
    )


def check_ranks(machine: TrialMachine, ranks: int) -> None:
    """Raise ``CannotSearch`` if a machine has too few GPUs for the ranks of a trial."""
    if machine.gpu and machine.gpus < ranks:
        raise CannotSearch(
            f"--ranks {ranks} needs {ranks} GPUs, and torch sees {machine.gpus}; ask "
            "for more GPUs, or name them in CUDA_VISIBLE_DEVICES"
        )


def installed_versions() -> dict[str, str]:
    """Return the versions here of the packages on which FP8 depends, by name."""
    return {name: found for name in packages() if (found := _version(name))}


def unsafe_versions(
    config: Config, allow: Sequence[str], versions: Mapping[str, str], device: str
) -> list[Match]:
    """Return the versions with which FP8 trials of a config fail, or may fail.

    None where no trial runs in FP8, or by Transformer Engine.
    """
    job = config.job
    freed = is_freed(config.trainer, "precision", allow)
    is_fp8 = job.find("precision") in (None, "fp8") or freed
    if not is_fp8 or job.find("te_recipe"):
        return []
    return of_trials(versions, device)


def check_versions(unsafe: Sequence[Match], python: str = "") -> None:
    """Raise ``CannotSearch`` if FP8 trials fail with these versions.

    ``python`` runs the trials, if not this Python.
    """
    for match in unsafe:
        if match.checked:
            install = match.combination.install
            command = f"{python} -m {install}" if python else install
            raise CannotSearch(f"{match}; {command}, or go on with --allow-versions")


def check_host(config: Config, running: int = 1) -> None:
    """Raise ``CannotSearch`` if this machine has too little memory for a rehearsal.

    A trial builds the weights in fp32: those of one rank, or all if they are tied or if
    several ranks run (``convert.build``).
    """
    with suppress(Unknown, ValueError, OSError):
        job = config.job
        ranks = 1 if job["tied_embeddings"] or running > 1 else job["shards"]
        needed = 4 * job["params.decoder"] * running / ranks / GIB
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
        if needed > memory:
            raise CannotSearch(
                f"{config.path}: its weights need {needed:.0f} GiB and this machine "
                f"has {memory:.0f}; rehearse a small model, such as "
                "configs/rehearsal_cpu.toml"
            )


def environment(
    job: Job, machine: TrialMachine, *, synthetic_data: bool
) -> dict[str, Any]:
    """Return what trials depend on besides the config: machine, software and data.

    Measurements with another GPU, driver, torch, allocator setting or data set do not
    apply to this search.
    """
    of_gpu = {"driver": machine.driver, "allocator": machine.allocator}
    return {
        "device": machine.device,
        "machine": machine.name,
        **(of_gpu if machine.device == "cuda" else {}),
        "fp8tune": __version__,
        **{name: _version(name) for name in ("torch", "torchao")},
        "data": "" if synthetic_data else _data_digest(job),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _data_digest(job: Job) -> str:
    """Return a digest of the data files' names, sizes and times; ``""`` without any."""
    names = job.find("data_files") or ()
    digest = hashlib.sha256()
    for name in names:
        status = os.stat(name)
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest() if names else ""


def larger_target_gib(job: Job, machine: TrialMachine) -> float:
    """Return the memory of the job's GPU if the machine's has less, else 0 [GiB]."""
    try:
        here = find(resolve(machine.gpu)).memory_gib
        wanted = job["gpu.memory_gib"]
    except (Unknown, UnknownGpu):
        return 0.0
    return float(wanted) if here and wanted > here else 0.0


def other_gpu_note(job: Job, machine: TrialMachine, *, extrapolates: bool) -> str:
    """Return a note if trials run on another GPU than the job's, else ``""``.

    Their speeds are not kept for estimates (``calibrate.measured``). A runner that
    ``extrapolates`` measures a setting that does not fit here by shallower models.
    """
    named = job.find("gpu")
    if not named or not machine.gpu or not is_another(machine.gpu, named):
        return ""
    if not extrapolates:
        here = f"trials run on this {machine.gpu}, not on {named}"
        return f"{here}: what does not fit here is left out"
    return f"memory limit of {named}, speeds measured on this {machine.gpu}"


def cpu_name() -> str:
    """Return the CPU's name with family and model, as in /proc/cpuinfo."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip(): value.strip() for key, _, value in reversed(list(pairs))}
    model = fields.get("model name", "unknown")
    if "cpu family" not in fields:
        return model
    return f"{model} (family {fields['cpu family']}, model {fields['model']})"
