"""A GPU, its state at one moment, and the processes that use it."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple

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
"""The reasons of a GPU that is too hot or badly powered; a power cap is normal."""

CONTEXT_GIB = 0.125
"""Memory that a process holds at least once it can compute: a CUDA context.

A context alone takes 107 MiB on a GPU of 34 multiprocessors and 555 MiB on one of 188,
3 MiB for each (github.com/ggml-org/llama.cpp/pull/23604): 175 MiB on the smallest GPU
with FP8 that trains (L4, 58), about 390 MiB on an H100.
"""
CROWDED_GIB = 1.0
"""Memory in use before a trial from which another process must hold it, even if none is
listed: it is more than the driver keeps for itself."""

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Variables that torch's CUDA allocator reads, in that order (torch 2.11 and 2.13,
``c10/cuda/CUDAAllocatorConfig.h``); other parts of torch prefer the second."""


class Gpu(NamedTuple):
    """The first GPU that torch sees, or a slice (MIG) of it.

    Unknown values are empty or 0, as the driver's version if only torch answers.
    ``source`` is ``NVML`` or ``torch``, ``visible`` the number of GPUs that torch sees.
    """

    name: str = ""
    driver: str = ""
    memory_gib: float = 0.0
    capability: str = ""
    source: str = ""
    visible: int = 1


class Process(NamedTuple):
    """A process with a context on the GPU; ``gib`` is ``None`` where it is hidden."""

    pid: int
    name: str
    gib: float | None


class Sample(NamedTuple):
    """The state of a GPU at one moment; unknown values are ``None``.

    ``time`` is in seconds since 1970, ``energy_j`` the energy used since the driver was
    loaded [J], ``busy`` the share of recent time in which something computed,
    ``used_gib`` the memory of processes, without the driver's own.
    """

    time: float | None = None
    sm_mhz: float | None = None
    temperature_c: float | None = None
    used_gib: float | None = None
    reasons: int | None = None
    busy: float | None = None
    energy_j: float | None = None
    processes: tuple[Process, ...] | None = None


def together(states: Sequence[Sample]) -> Sample:
    """Return the state of several GPUs at one moment as one.

    Joules are added. Of the others the worst counts: the lowest clock, and
    the highest temperature, use and memory of a GPU. What one GPU does not tell is
    unknown.
    """
    if len(states) == 1:
        return states[0]

    def of_all(name: str, combine: Callable[[list[Any]], Any]) -> Any:
        values = [getattr(state, name) for state in states]
        return None if None in values else combine(values)

    return Sample(
        time=of_all("time", max),
        sm_mhz=of_all("sm_mhz", min),
        temperature_c=of_all("temperature_c", max),
        used_gib=of_all("used_gib", max),
        reasons=of_all("reasons", lambda bits: reduce(operator.or_, bits)),
        busy=of_all("busy", max),
        energy_j=of_all("energy_j", math.fsum),
        processes=of_all("processes", lambda some: tuple(dict.fromkeys(chain(*some)))),
    )


def named_reasons(bits: int) -> list[str]:
    """Return the names of the reasons whose bits are set."""
    return [name for bit, name in REASONS.items() if bits & bit]


def able_to_compute(processes: Iterable[Process]) -> list[Process]:
    """Return the processes that are large enough to hold a CUDA context.

    Includes processes whose memory is hidden.
    """
    return [one for one in processes if one.gib is None or one.gib >= CONTEXT_GIB]


def allocator(environment: Mapping[str, str] = os.environ) -> str:
    """Return the environment's settings of torch's CUDA allocator, ``NAME=VALUE``.

    ``default`` if there are none.
    """
    settings = (f"{name}={environment.get(name, '').strip()}" for name in ALLOCATOR)
    return ", ".join(one for one in settings if not one.endswith("=")) or "default"
