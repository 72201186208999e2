"""Distribute work over forked processes (not on Windows)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from fp8tune.lint.selection import Problem

Share = TypeVar("Share")
Made = TypeVar("Made")


def shared_out(work: Callable[[Share], Made], shares: list[Share]) -> list[Made]:
    """Return the results of ``work`` on each share, in order; the first runs here.

    An error of the work is raised in this process, and the others are ended.
    """
    children = [_Child(work, share) for share in shares[1:]]
    try:
        return [work(shares[0]), *(child.result() for child in children)]
    finally:
        for child in children:
            child.end()


class _Child(Generic[Share, Made]):
    """A process that does one share and sends its result through a pipe."""

    def __init__(self, work: Callable[[Share], Made], share: Share) -> None:
        read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(read)
            _do(work, share, write)
        os.close(write)
        self.pipe = open(read, "rb")  # noqa: SIM115

    def result(self) -> Made:
        import pickle

        try:
            made, error = pickle.load(self.pipe)  # noqa: S301 - of our own process
        except (EOFError, pickle.UnpicklingError):
            raise Problem(
                "a process that checks files ended before its work was done, perhaps "
                "for lack of memory; check fewer files at a time"
            ) from None
        if error is not None:
            raise error
        result: Made = made
        return result

    def end(self) -> None:
        self.pipe.close()
        os.kill(self.pid, signal.SIGKILL)  # it is done, or its result is not needed
        os.waitpid(self.pid, 0)


def _do(work: Callable[[Share], Any], share: Share, write: int) -> NoReturn:
    """Do a share, send the result or the error, and end without cleanup."""
    try:
        import pickle

        made = error = None
        try:
            made = work(share)
        except Exception as raised:
            error = raised
        with open(write, "wb") as pipe:
            pickle.dump((made, error), pipe)
    finally:
        os._exit(0)
