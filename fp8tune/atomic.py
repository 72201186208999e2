"""Write a file at once: readers see the old bytes or the new ones, nothing between."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile


def write(path: str, data: bytes, like: str = "", *, through: bool = True) -> None:
    """Put ``data`` in the place of a file, with mode and owner ``like`` another's.

    A link stays a link: what it points at is replaced, unless it is not to be written
    ``through``; further hard links keep the old bytes. What is no file, such as a pipe
    or ``/dev/null``, is written to and stays. Raises ``OSError`` that names ``path``,
    and then the file is what it was.
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
    """An opener for ``open`` that follows no link; raises ``OSError``."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def is_stream(path: str) -> bool:
    """Whether something is there that bytes are sent to: a pipe, a device, a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _as_new(path: str) -> None:
    """Give a file the mode that a new file has."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def _imitate(path: str, other: str) -> None:
    """Give a file the mode and attributes of another; owner and group where allowed.

    Where the group is not, it gets no rights: they were another group's.
    """
    belongs = _given(path, os.stat(other))
    shutil.copystat(other, path)
    os.utime(path)
    if not belongs:
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~stat.S_IRWXG)


def _given(path: str, status: os.stat_result) -> bool:
    """Give a file owner and group, or the group alone; whether it has the group."""
    if not hasattr(os, "chown"):
        return True
    for owner in (status.st_uid, -1):
        with contextlib.suppress(OSError):
            os.chown(path, owner, status.st_gid)
            return True
    return False
