"""One search at a time in a study's folder; a killed one leaves no lock behind."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from fp8tune.atomic import no_link

NAME = "lock"


class Busy(Exception):
    """Another search is at work in the folder."""


@contextlib.contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """Hold a folder, which is made where it is missing; raises ``Busy``, ``OSError``.

    File systems without locks are used without them.
    """
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, NAME), "a", opener=no_link) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise Busy(f"{folder}: another search is running in it") from None
        yield


def is_held(folder: str) -> bool | None:
    """Whether a search is at work in a folder; ``None`` where locks cannot tell."""
    try:
        with open(os.path.join(folder, NAME), "rb", opener=no_link) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as error:
        return True if error.errno == errno.EWOULDBLOCK else None
    return False
