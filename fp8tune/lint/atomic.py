"""Write a file whole or not at all."""

from __future__ import annotations

import os
import stat


def replace(path: str, data: bytes) -> None:
    """Make ``data`` the content of a file, at once; raises ``OSError``.

    A file keeps its permissions and a symbolic link its target. What is no regular
    file, such as a pipe, is written to.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = 0
    if mode and not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            file.write(data)
        return
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".fp8tune-{os.getpid()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(temporary, flags, 0o666), "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if mode:
                os.chmod(temporary, stat.S_IMODE(mode))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
