"""A bound on what must come back, far above what it takes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

WAITING = 10
"""How much longer it may wait than work: the machine may be busy with other things."""


class _Hangs(BaseException):
    """Raised by the alarm; nothing catches it by chance."""


@contextmanager
def soon(seconds: int = 20) -> Iterator[None]:
    """Fail if the body works longer than ``seconds`` of processor time, or hangs."""

    def ring(number, frame):
        raise _Hangs

    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, seconds),
        signal.ITIMER_REAL: (signal.SIGALRM, WAITING * seconds),
    }
    before = {name: signal.signal(name, ring) for name, _ in timers.values()}
    for timer, (_, limit) in timers.items():
        signal.setitimer(timer, limit)
    hangs = False
    try:
        yield
    except _Hangs:
        hangs = True
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for name, handler in before.items():
            signal.signal(name, handler)
    if hangs:
        pytest.fail(f"still running after {seconds} s", pytrace=False)
