"""What signals do to a search: Ctrl-C, a batch system's, a lost terminal's."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

STOPPED = 130
"""Exit code of a search that a signal ended."""
THROUGH_SRUN = signal.SIGUSR2
"""What ends the tasks of an srun that gets it: others end srun, which kills them."""
SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1),
    THROUGH_SRUN,
)


class Stop:
    """Ends a search on Ctrl-C, a batch system's signal, or a lost terminal.

    The first signal ends the search with what is known, the second ends the program. A
    lost terminal may signal twice; that counts once, and not at all under nohup. After
    ``searching`` the first signal only prints a note, because writing the answer is
    quick. While other processes run trials of the search, a signal ends only this one:
    ``waits``. ``show`` prints the note on the first signal. SIGUSR1 says that the job
    of this process ends and ``requeues``, as ``slurm.py`` asks Slurm to do.
    """

    def __init__(self) -> None:
        self.asked = self.requeues = False
        self.searching = True
        self._goes_on = False
        self.waits: Callable[[], bool] = lambda: False
        self.show: Callable[[str], None] = say_at_once

    @property
    def leaves(self) -> bool:
        """Whether the search goes on without this process."""
        return self.asked and self._goes_on

    @contextlib.contextmanager
    def takes_signals(self) -> Iterator[None]:
        """Handle the signals of this process, and restore their handlers at the end."""
        taken = set(SIGNALS)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            taken.remove(signal.SIGHUP)
        before = {number: signal.signal(number, self._on_signal) for number in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGHUP:
            return
        if self.asked:
            say_at_once("stopped")
            raise SystemExit(STOPPED)
        self.asked = True
        self.requeues = number == signal.SIGUSR1
        self._goes_on = self.waits()
        if self.searching:
            best = "stopping with the best so far"
            does = "the search goes on, this command ends" if self._goes_on else best
            self.show(f"{does}; Ctrl-C again stops now")
            raise KeyboardInterrupt
        ended = "the search has ended and its result is being written"
        say_at_once(f"{ended}; Ctrl-C again stops now")


def say_at_once(text: str) -> None:
    """Print a line to stderr without Python's buffers, which a signal may interrupt."""
    with contextlib.suppress(OSError):
        os.write(2, f"fp8tune: {text}\n".encode())
