"""What is known of a GPU: what it is, its state at a moment, and who else uses it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

REASONS = {
    0x01: "idle",
    0x02: "application clocks",
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Bits of the reasons for lower clocks (NVML reference, nvmlClocksEventReasons)."""
HARMFUL = 0x08 | 0x20 | 0x40 | 0x80
"""Those of a GPU that is too hot or badly powered; a power cap is usual."""

CONTEXT_GIB = 0.125
"""Memory that a process holds at least once it can compute: a CUDA context.

A context alone takes 107 MiB on a GPU of 34 multiprocessors and 555 MiB on one of 188,
3 MiB for each (github.com/ggml-org/llama.cpp/pull/23604): 175 MiB on the smallest GPU
with FP8 that trains (L4, 58), about 390 MiB on an H100.
"""
CROWDED_GIB = 1.0
"""Memory in use before a trial from which it is another process's, though none is
listed: more than the driver keeps for itself."""

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Variables that torch's CUDA allocator reads, in that order (torch 2.11 and 2.13,
``c10/cuda/CUDAAllocatorConfig.h``); other parts of torch prefer the second."""


class Gpu(NamedTuple):
    """The GPU, or the slice (MIG) of one, that torch takes as its first.

    What is unknown is empty or 0. ``driver`` is the driver's version, or the CUDA that
    it is for where only torch tells (``CUDA 13.0``); ``source`` is who told: ``NVML``,
    ``nvidia-smi`` or ``torch``.
    """

    name: str = ""
    driver: str = ""
    memory_gib: float = 0.0
    capability: str = ""
    source: str = ""


class Process(NamedTuple):
    """A process with a context on the GPU; ``gib`` is ``None`` where it is hidden."""

    pid: int
    name: str
    gib: float | None


class Sample(NamedTuple):
    """The GPU at one moment; what is unknown is ``None``.

    ``time`` is in seconds since 1970, ``energy_j`` what the GPU has used since its
    driver was loaded [J]. ``busy`` is the share of the last moments in which something
    computed; ``used_gib`` what processes hold, without what the driver reserves.
    """

    time: float | None = None
    sm_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    used_gib: float | None = None
    reasons: int | None = None
    busy: float | None = None
    energy_j: float | None = None
    processes: tuple[Process, ...] | None = None


def named_reasons(bits: int) -> list[str]:
    """Return the names of the reasons that are set."""
    return [name for bit, name in REASONS.items() if bits & bit]


def able_to_compute(processes: Iterable[Process]) -> list[Process]:
    """Return the processes that are large enough to hold a CUDA context.

    One whose memory is hidden is among them.
    """
    return [one for one in processes if one.gib is None or one.gib >= CONTEXT_GIB]


def allocator(environment: Mapping[str, str] = os.environ) -> str:
    """Return what the environment tells torch's CUDA allocator: ``NAME=VALUE``.

    ``default`` where it says nothing.
    """
    told = (f"{name}={environment.get(name, '').strip()}" for name in ALLOCATOR)
    return ", ".join(one for one in told if not one.endswith("=")) or "default"
