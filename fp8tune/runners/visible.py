"""Which GPU, or which slice of one, torch takes as its first.

``CUDA_VISIBLE_DEVICES`` names GPUs by number or UUID, and slices (MIG) by a UUID of
their own, which ``nvidia-smi -i`` does not take; ``nvidia-smi -L`` says whose they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_GPU = re.compile(r"GPU (\d+): .*\(UUID: ([^)]+)\)")
_SLICE = re.compile(r"\s+MIG (\S+) .*\(UUID: ([^)]+)\)")
_OLD_SLICE = re.compile(r"MIG-(GPU-[^/]+)/")
"""Names of slices before driver 470: ``MIG-GPU-UUID/1/0``."""


class Visible(NamedTuple):
    """A GPU as ``nvidia-smi -i`` names it, and the profile of a slice of it.

    ``profile`` is ``""`` for a whole GPU: what the driver tells of one with slices
    (memory, watts, processes) is of all of them.
    """

    name: str
    profile: str = ""


def found(wanted: str, listing: str) -> Visible:
    """What a name stands for, by what ``nvidia-smi -L`` lists."""
    for index, uuid, slices in _gpus(listing):
        named = wanted == index or uuid.startswith(wanted)
        for profile, own in slices:
            # a GPU with slices has no whole: torch takes the first
            if named or own.startswith(wanted):
                return Visible(index, profile)
        if named:
            return Visible(wanted if wanted == index else uuid)
    old = _OLD_SLICE.match(wanted)
    return Visible(old[1], "slice") if old else Visible(wanted)


def _gpus(listing: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Each GPU's number and UUID, with profile and UUID of its slices."""
    gpus: list[tuple[str, str, list[tuple[str, str]]]] = []
    for line in listing.splitlines():
        if gpu := _GPU.match(line):
            gpus.append((gpu[1], gpu[2], []))
        elif gpus and (part := _SLICE.match(line)):
            gpus[-1][2].append((part[1], part[2]))
    yield from gpus
