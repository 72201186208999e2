"""Which files to check, and their bytes."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import NamedTuple

from fp8tune.formats import ENDINGS, MAX_BYTES

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})

_ENDINGS = tuple(ENDINGS)


class Found(NamedTuple):
    """A file to check; ``explicit`` if the user named it.

    Of several files that are one job, ``beside`` are the others, ``trainer`` is whose
    job it is where the file's own keys do not say it, and ``note`` says that they are.
    """

    path: str
    explicit: bool
    beside: tuple[str, ...] = ()
    trainer: str = ""
    note: str = ""


class CannotRead(Exception):
    """A file cannot be read; says which and why."""


def discover(paths: tuple[str, ...]) -> Iterator[Found]:
    """The files that ``paths`` mean, folders searched in sorted order.

    Hidden folders and symbolic links to folders are not entered. A file is found
    once, as named if it was named.
    """
    folders = {path for path in paths if path != "-" and os.path.isdir(path)}
    named = {os.path.abspath(path) for path in paths if path not in folders}
    seen = set()
    for path in paths:
        files = _folder(path) if path in folders else (path,)
        for file in files:
            place = file if file == "-" else os.path.abspath(file)
            if place not in seen and (path not in folders or place not in named):
                seen.add(place)
                yield Found(file, explicit=path not in folders)


def _folder(path: str) -> Iterator[str]:
    """The files of a config's format below a folder: its own, then its folders'."""
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        inside = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not (entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS):
                    inside.append(entry.path)
            elif entry.name.endswith(_ENDINGS) and not _leads_nowhere(entry):
                yield os.path.normpath(entry.path)
        waiting += reversed(inside)


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a link to a folder, or to no file that exists."""
    return entry.is_symlink() and (
        os.path.isdir(entry.path) or not os.path.exists(entry.path)
    )


def read(path: str) -> bytes:
    """The bytes of a regular file, or of stdin for ``-``.

    One byte more than the limit at most, so that the caller sees the excess.
    Raises ``CannotRead``.
    """
    try:
        if path == "-":
            if sys.stdin is None:
                raise CannotRead("-: stdin is closed")
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise CannotRead(f"{path}: not a regular file; pipe it in and name it -")
        with open(path, "rb", buffering=0) as file:
            return file.read(MAX_BYTES + 1 if status.st_size > MAX_BYTES else -1)
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
