"""Ctrl-C, and the signals with which batch systems and lost terminals end a job."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CODE = 130


class Stop:
    """The first signal ends the search with what is known, the second the program.

    A lost terminal may say so twice: that counts once, and not at all under nohup.
    While it is not ``searching`` any more the first is only noted: writing the answer
    takes no time worth breaking off.
    """

    def __init__(self) -> None:
        self.asked = False
        self.searching = True

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Take the signals of this process, and give them back at the end."""
        heard = set(SIGNALS)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            heard.remove(signal.SIGHUP)
        before = {number: signal.signal(number, self._hear) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGHUP:
            return
        if self.asked:
            _say("stopped")
            raise SystemExit(CODE)
        self.asked = True
        if self.searching:
            _say("stopping with what is known so far; once more to stop now")
            raise KeyboardInterrupt
        _say("the search has ended and is being written down; once more to stop now")


def _say(text: str) -> None:
    """A line on stderr, past Python's buffers, which the signal may have hit."""
    with contextlib.suppress(OSError):
        os.write(2, f"fp8tune: {text}\n".encode())
