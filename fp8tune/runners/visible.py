"""Find the GPUs, or slices (MIG) of them, that torch sees.

``CUDA_VISIBLE_DEVICES`` names GPUs by number, UUID or the beginning of one, and slices
by their own UUID.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple


class Listed(NamedTuple):
    """A GPU as the driver lists it, with the profile and UUID of each of its slices."""

    number: str
    uuid: str
    slices: tuple[tuple[str, str], ...] = ()


class Visible(NamedTuple):
    """The number of a GPU, and its slice if one is used.

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
