"""Where the tuned config goes, and whether it can go there."""

from __future__ import annotations

import os


class CannotPut(Exception):
    """No file can be written there: names the path and says why."""


def tuned(path: str) -> str:
    """The path beside a config that its tuned version has where none is asked for."""
    return f"{path.removesuffix('.toml')}.tuned.toml"


def check_place(path: str) -> None:
    """Raise ``CannotPut`` where a file cannot be written; asked before the search."""
    place = os.path.realpath(path)
    folder = os.path.dirname(place)
    if os.path.isdir(place):
        raise CannotPut(f"{path}: Is a directory")
    if not os.path.isdir(folder):
        raise CannotPut(f"{path}: no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CannotPut(f"{path}: no permission to write in {folder}")


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
