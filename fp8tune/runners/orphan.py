"""A worker that outlives its search would hold the GPU: it dies with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends, however that ends (Linux).

    ``parent`` is the one that started it: if that is gone already, end at once.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)
