"""Where the tuned config goes, and whether it can go there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from fp8tune import atomic
from fp8tune.search.storage import NAME

OWN = (NAME, f"{NAME}.bak", "trials.jsonl", "lock")
"""The files of a study's folder that no output may replace."""
BESIDE = "calibration.jsonl"
"""What studies leave to later estimates, in the folder of all."""


MOST = 1 << 20
"""What is read of a file that may be replaced [bytes]."""


class CannotPut(Exception):
    """No file can be written there: names the path and says why."""


def tuned(path: str) -> str:
    """The path beside a config that its tuned version has where none is asked for."""
    return f"{path.removesuffix('.toml')}.tuned.toml"


def check_place(path: str) -> None:
    """Raise ``CannotPut`` where a file cannot be written; asked before the search."""
    if atomic.is_stream(path):
        return
    place = os.path.realpath(path)
    folder = os.path.dirname(place)
    if os.path.isdir(place):
        raise CannotPut(f"{path}: Is a directory")
    if not os.path.isdir(folder):
        raise CannotPut(f"{path}: no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CannotPut(f"{path}: no permission to write in {folder}")


def check_own(path: str, mark: str) -> None:
    """Raise ``CannotPut`` where nobody asked for the path and a file of others is."""
    with suppress(OSError), open(path, "rb") as file:
        if mark.encode() not in file.read(MOST):
            raise CannotPut(
                f"{path} is there and no search wrote it: move it, or name another "
                "path with --output"
            )


def check_apart(path: str, read: Mapping[str, str], other: str) -> None:
    """Raise ``CannotPut`` where an output would replace what it is made from.

    ``read`` says of each file that is read what it is; ``other`` is a path to write
    instead. Neither may it be the evidence of any study.
    """
    what = next((what for file, what in read.items() if is_same(path, file)), "")
    if what or _is_evidence(path):
        lost = what or "what trials have measured"
        raise CannotPut(f"{path}: this would replace {lost}; try --output {other}")


def _is_evidence(path: str) -> bool:
    place = os.path.realpath(path)
    folder, name = os.path.split(place)
    if name == BESIDE:
        return os.path.exists(place)
    return name in OWN and os.path.exists(os.path.join(folder, NAME))


def is_same(path: str, other: str) -> bool:
    """Whether two paths lead to one file."""
    return os.path.realpath(path) == os.path.realpath(other)


def changed(path: str, data: bytes) -> bool:
    """Whether a file no longer holds these bytes: somebody edited it meanwhile."""
    try:
        with open(path, "rb") as file:
            return file.read(len(data) + 1) != data
    except OSError:
        return True
