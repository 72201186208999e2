"""A bound on what must come back, far above what it takes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class _Hangs(BaseException):
    """Raised by the alarm; nothing catches it by chance."""


@contextmanager
def soon(seconds: int = 20) -> Iterator[None]:
    """Fail if the body runs longer than ``seconds``."""

    def ring(number, frame):
        raise _Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    hangs = False
    try:
        yield
    except _Hangs:
        hangs = True
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if hangs:
        pytest.fail(f"still running after {seconds} s", pytrace=False)
