"""Find the first GPU, or slice (MIG) of one, that torch sees.

``CUDA_VISIBLE_DEVICES`` names GPUs by number, UUID or the beginning of one, and slices
by their own UUID.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import NamedTuple

_GPU = re.compile(r"GPU (\d+): .*\(UUID: ([^)]+)\)")
_SLICE = re.compile(r"\s+MIG (\S+) .*\(UUID: ([^)]+)\)")


class Listed(NamedTuple):
    """A GPU as the driver lists it, with the profile and UUID of each of its slices."""

    number: str
    uuid: str
    slices: tuple[tuple[str, str], ...] = ()


class Visible(NamedTuple):
    """A GPU as ``nvidia-smi -i`` names it, and its slice if one is used.

    ``profile`` and ``uuid`` are the slice's, ``""`` for a whole GPU. For a GPU with
    slices the driver reports watts, clocks and use of all slices together.
    """

    name: str
    profile: str = ""
    uuid: str = ""


def visible_gpus(
    gpus: Iterable[Listed], environment: Mapping[str, str] = os.environ
) -> list[Visible]:
    """Return the GPUs that torch sees, in its order; rank i of a trial takes the i-th.

    ``CUDA_VISIBLE_DEVICES`` names them, up to the first name that is not listed.
    """
    listed = list(gpus)
    names = environment.get("CUDA_VISIBLE_DEVICES", "").strip().split(",")
    if names == [""]:
        names = [gpu.number for gpu in listed]
    found = (visible_gpu(name.strip(), listed) for name in names)
    return list(filter(None, takewhile(lambda gpu: gpu is not None, found)))


def visible_gpu(name: str, gpus: Iterable[Listed]) -> Visible | None:
    """Return the GPU or slice of that name, if it is listed."""
    for number, uuid, slices in gpus:
        named = name == number or uuid.startswith(name)
        for profile, own in slices:
            # a GPU with slices cannot be used whole: torch uses the first slice
            if named or own.startswith(name):
                return Visible(number, profile, own)
        if named:
            return Visible(number)
    return None


def listed_gpus(text: str) -> Iterator[Listed]:
    """Yield each GPU in the output of ``nvidia-smi -L``."""
    gpus: list[Listed] = []
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            gpus.append(Listed(gpu[1], gpu[2]))
        elif gpus and (part := _SLICE.match(line)):
            slices = (*gpus[-1].slices, (part[1], part[2]))
            gpus[-1] = gpus[-1]._replace(slices=slices)
    yield from gpus
