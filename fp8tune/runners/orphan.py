"""End a process when its parent ends, so that it does not keep the GPU.

``COMMAND PARENT NUMBER PROGRAM...`` runs a program that does not do so itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

from fp8tune.runners.process import module_command

PR_SET_PDEATHSIG = 1
COMMAND = module_command("fp8tune.runners.orphan")


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Send this process a signal when its parent ends, however that ends (Linux).

    ``parent`` is the process that started it: if that is already gone, end at once.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        raise SystemExit(1)


def main(parent: int, number: str, program: list[str]) -> None:
    """Become a program that ends with its parent, by the signal of that name."""
    die_with_parent(parent, signal.Signals[f"SIG{number}"])
    try:
        os.execvp(program[0], program)  # noqa: S606, no shell: a list of arguments
    except OSError as error:
        raise SystemExit(f"{program[0]}: {error.strerror}") from None


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
