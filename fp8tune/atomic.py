"""Write a file at once: readers see the old bytes or the new ones, nothing between."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile


def write(path: str, data: bytes, like: os.stat_result | None = None) -> None:
    """Put ``data`` in the place of a file, with mode and owner ``like`` another's.

    A link stays a link: what it points at is replaced. Raises ``OSError``, and then
    the file is what it was.
    """
    place = os.path.realpath(path)
    folder = os.path.dirname(place)
    handle, temporary = tempfile.mkstemp(prefix=".fp8tune-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _own(temporary, like)
        os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _own(path: str, like: os.stat_result | None) -> None:
    """Give a file the mode of another, or of a new file; the owner where allowed."""
    if like is None:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(path, 0o666 & ~mask)
        return
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(path, like.st_uid, like.st_gid)
    os.chmod(path, stat.S_IMODE(like.st_mode))
