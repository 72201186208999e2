"""Write a file atomically: readers see the old bytes or the new ones, never a mix."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile


def write(path: str, data: bytes, like: str = "", *, through: bool = True) -> None:
    """Replace a file's content with ``data``, atomically.

    ``like`` is a file whose mode and owner are copied. ``through``: a symbolic link
    stays, and the file that it points at is replaced; else the link itself is replaced.
    Other hard links keep the old bytes. A pipe or device such as ``/dev/null`` is
    written to directly. Raises ``OSError`` that names ``path``; the file is then
    unchanged.
    """
    try:
        _write(path, data, like, through=through)
    except OSError as error:
        error.filename = path
        raise


def _write(path: str, data: bytes, like: str, *, through: bool) -> None:
    if through and is_stream(path):
        with open(path, "wb") as stream:
            stream.write(data)
        return
    place = os.path.realpath(path) if through else os.path.abspath(path)
    folder = os.path.dirname(place)
    handle, temporary = tempfile.mkstemp(prefix=".fp8tune-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if like:
            _imitate(temporary, like)
        else:
            _as_new(temporary)
        os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def no_link(path: str, flags: int) -> int:
    """Open a file without following links (an opener for ``open``)."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def is_stream(path: str) -> bool:
    """Return whether a path is a pipe, a device or a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _as_new(path: str) -> None:
    """Give a temporary file the mode of a newly created file."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def _imitate(path: str, other: str) -> None:
    """Copy mode and attributes of another file, and owner and group if permitted.

    If the group cannot be set, the group gets no rights: they were meant for another.
    """
    belongs = _given(path, os.stat(other))
    shutil.copystat(other, path)
    os.utime(path)
    if not belongs:
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~stat.S_IRWXG)


def _given(path: str, status: os.stat_result) -> bool:
    """Set owner and group, else the group alone; return whether the group was set."""
    if not hasattr(os, "chown"):
        return True
    for owner in (status.st_uid, -1):
        with contextlib.suppress(OSError):
            os.chown(path, owner, status.st_gid)
            return True
    return False
