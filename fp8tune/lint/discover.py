"""Which files to check, and their bytes."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import NamedTuple

from fp8tune.toml.document import MAX_BYTES

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


class Found(NamedTuple):
    """A file to check; ``explicit`` if the user named it."""

    path: str
    explicit: bool


class CannotRead(Exception):
    """A file cannot be read; says which and why."""


def discover(paths: tuple[str, ...]) -> Iterator[Found]:
    """The files that ``paths`` mean, folders searched in sorted order.

    Hidden folders and symbolic links to folders are not entered.
    """
    for path in dict.fromkeys(paths):
        if path != "-" and os.path.isdir(path):
            for found in _folder(path):
                yield Found(found, explicit=False)
        else:
            yield Found(path, explicit=True)


def _folder(path: str) -> Iterator[str]:
    for root, folders, files in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in SKIPPED_FOLDERS
        )
        for name in sorted(files):
            if name.endswith(".toml"):
                yield os.path.normpath(os.path.join(root, name))


def read(path: str) -> bytes:
    """The bytes of a regular file, or of stdin for ``-``.

    One byte more than the limit at most, so that the caller sees the excess.
    Raises ``CannotRead``.
    """
    if path == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise CannotRead(f"{path}: not a regular file; pipe it in and name it -")
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CannotRead(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise CannotRead(f"{path!r}: not a file name") from None


def matches(path: str, folder: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path matches a pattern, or lies in a folder that does.

    Patterns are relative to ``folder``; ``*`` crosses slashes.
    """
    if not patterns:
        return False
    relative = os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")
    parts = relative.split("/")
    prefixes = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    return any(
        fnmatch(name, pattern.rstrip("/"))
        for pattern in patterns
        for name in (*prefixes, *parts)
    )
