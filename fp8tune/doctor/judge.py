"""What a machine lacks for a search, each item with the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.doctor.machine import Machine
from fp8tune.extras import INSTALL, SEARCH, TRIALS
from fp8tune.facts.versions import matches
from fp8tune.runners.gpu import Gpu

PIP_TORCH = "pip install --upgrade torch, as https://pytorch.org/get-started says"
NVML = "nvidia-ml-py"
NODE = "run it on a GPU node, or rehearse: fp8tune doctor --device cpu"
DRIVER = (
    "fix or restart the driver until nvidia-smi lists the GPU, or take another node"
)
WATCH = (
    f"{INSTALL}; a container gets the driver's libnvidia-ml.so.1 by "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
)
JOB = "srun --gpus=1 --pty fp8tune doctor"
FP8_FROM = (8, 9)
"""Compute capability from which a GPU multiplies in FP8 (Ada 8.9, Hopper 9.0)."""


class Check(NamedTuple):
    """One line of the report.

    ``state`` is ``ok``, ``missing`` (a search cannot run without it), ``warning`` (it
    can) or ``info``. ``why`` and ``fix`` are empty if all is well.
    """

    name: str
    state: str
    value: str
    why: str = ""
    fix: str = ""


def judge(machine: Machine, device: str) -> list[Check]:
    """Return the lines of the report: each comes after those that it depends on."""
    lines = [Check("python", "ok", machine.python)]
    if device == "cuda":
        lines += _driver(machine)
    lines += _software(machine, device)
    lines += _fp8(machine, device)
    if device == "cuda" and machine.gpu.name:
        lines.append(_visible(machine.gpu))
    lines += _around(machine)
    return lines


def without_gpu(checks: list[Check]) -> list[str]:
    """Return what to do on a machine without a GPU; nothing if it has one."""
    states = {check.name: (check.state, check.value) for check in checks}
    if states.get("gpu") != ("missing", "none"):
        return []
    jobs = "fp8tune search CONFIG --slurm partition=NAME,gpus=1"
    return [
        "no GPU here: a search on one cannot run",
        "  works here   lint, estimate, explain, verify, compare, phases",
        "  on the CPU   a rehearsal of the search: fp8tune doctor --device cpu",
        *[f"  Slurm jobs   {jobs}"] * (states["slurm"][1] == "no job"),
    ]


def can_search(checks: list[Check]) -> bool:
    """Return whether nothing is missing."""
    return all(check.state != "missing" for check in checks)


def _driver(machine: Machine) -> Iterator[Check]:
    gpu = machine.gpu
    if not gpu.name and machine.failed:
        yield Check("gpu", "missing", "unknown", machine.failed, DRIVER)
        return
    if not gpu.name:
        fix = JOB if machine.slurm == "no job" else NODE
        yield Check("gpu", "missing", "none", "no NVIDIA GPU found here", fix)
        return
    memory = f", {gpu.memory_gib:.1f} GiB" if gpu.memory_gib else ""
    value = f"{gpu.name}{memory}"
    if " MIG " in gpu.name:
        why = "a slice of a GPU (MIG): trials measure the slice"
        yield Check("gpu", "warning", value, why, "take a whole GPU")
    else:
        yield Check("gpu", "ok", value)
    if machine.unwatched:
        why = f"trials cannot be monitored: {machine.unwatched}"
        yield Check("driver", "warning", gpu.driver or "unknown", why, WATCH)
    else:
        yield Check("driver", "ok", gpu.driver)
    if machine.processes:
        names = ", ".join(f"{p.name} (pid {p.pid})" for p in machine.processes)
        why = "they distort what trials measure"
        yield Check("other processes", "warning", names, why, "end them, or wait")


def _software(machine: Machine, device: str) -> Iterator[Check]:
    stage, how = machine.stopped
    for name in (*TRIALS, *SEARCH):
        found = machine.packages.get(name, "")
        if not found:
            yield Check(name, "missing", "not installed", fix=INSTALL)
        elif stage == name or (name == "torch" and stage == "start"):
            fix = f"pip install --force-reinstall {name}"
            yield Check(name, "missing", found, f"import {name}: {how}", fix)
        else:
            yield Check(name, "ok", found)
    if device == "cuda":
        found = machine.packages.get(NVML, "")
        state = "ok" if found else "warning"
        without = "without it no trial knows clocks, watts and other processes"
        why, fix = ("", "") if found else (without, INSTALL)
        yield Check(NVML, state, found or "not installed", why, fix)
    if device == "cuda" and "torch" in machine.probe:
        yield _cuda(machine)
    yield from _versions(machine, device)


def _versions(machine: Machine, device: str) -> Iterator[Check]:
    """Yield the versions with which trials fail, and notes on others.

    What concerns the settings of one trainer is for lint.
    """
    versions = machine.packages | {"cuda": str(machine.probe.get("torch_cuda") or "")}
    for match in matches(versions):
        of = match.combination
        if of.is_of_trials and of.fails:
            state = "missing" if match.checked else "warning"
        elif of.consequence == "note" and match.checked:
            state = "info"
        else:
            continue
        if of.device in ("", device):
            why = f"{of.what}: {match.symptom}"
            fix = "" if state == "info" else of.install
            yield Check("versions", state, match.named, why, fix)


def _cuda(machine: Machine) -> Check:
    cuda = machine.probe.get("torch_cuda")
    stage, how = machine.stopped
    if not cuda and not machine.gpu.name:
        return Check("cuda", "info", "none", "this torch is for CPUs")
    if not cuda:
        return Check("cuda", "missing", "none", "this torch is for CPUs", PIP_TORCH)
    if stage == "device":
        why = f"torch cannot use the GPU: {how}"
        return Check("cuda", "missing", str(cuda), why, PIP_TORCH)
    return Check("cuda", "ok", str(cuda))


def _fp8(machine: Machine, device: str) -> Iterator[Check]:
    capability = str(machine.probe.get("capability", ""))
    capability = capability or machine.gpu.capability
    if machine.probe.get("fp8"):
        value = f"yes, compute capability {capability}" if capability else "yes"
        if device == "cpu":
            value = "emulated by the CPU, slower than bf16"
        yield Check("fp8", "ok", value)
    elif capability and _parts(capability) < FP8_FROM:
        why = "FP8 matmuls need 8.9 (Ada) or 9.0 (Hopper) and above"
        yield Check("fp8", "missing", f"no, capability {capability}", why, NODE)
    elif machine.stopped[0] == "fp8" or machine.probe.get("fp8") is False:
        why = machine.stopped[1] or "an FP8 matmul gave a wrong result"
        yield Check("fp8", "missing", "no", why, PIP_TORCH)
    else:
        yield Check("fp8", "info", "not tried: see above")


def _visible(gpu: Gpu) -> Check:
    """Return how many GPUs a search with ``--ranks`` has."""
    alone = "fp8tune search --ranks N needs several" * (gpu.visible < 2)
    return Check("visible gpus", "info", str(gpu.visible), alone)


def _around(machine: Machine) -> Iterator[Check]:
    if machine.compiler:
        yield Check("c++ compiler", "ok", machine.compiler)
    else:
        why = "torch.compile needs one"
        fix = "install g++, or load the cluster's gcc module"
        yield Check("c++ compiler", "warning", "none", why, fix)
    if machine.gpu.name:
        triton = machine.packages.get("triton", "")
        why, fix = ("", "") if triton else ("torch.compile needs it", PIP_TORCH)
        state = "ok" if triton else "warning"
        yield Check("triton", state, triton or "not installed", why, fix)
    if machine.allocator:
        yield Check("allocator", "info", machine.allocator)
    yield Check("slurm", "info", machine.slurm or "none")


def _parts(capability: str) -> tuple[int, ...]:
    """Return a capability such as ``9.0`` as numbers; other text is new enough."""
    try:
        return tuple(map(int, capability.split(".")))
    except ValueError:
        return FP8_FROM
