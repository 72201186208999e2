"""Find the GPU that trials run on and watch its state, in a long-lived process.

It asks NVML (``nvml``), then torch (``probe``), which knows the GPU but not its state.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import threading
import time
from collections import deque

from fp8tune.runners import nvml, probe
from fp8tune.runners.gpu import Gpu, Sample

START_S = 60.0
"""How long to wait for a driver's first answer [s]: without persistence mode it starts
each GPU for it, in 1 to 3 s (docs.nvidia.com/deploy/driver-persistence)."""
ANSWER_S = 10.0
"""How long to wait for a later answer [s]. After a missing one there is no more waiting
until the driver answers again."""
KEPT = 20_000
"""Samples that are kept: those of 80 minutes."""
UNWATCHED = "NVML does not report its state"
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
"""Variables that decide which driver answers, and about which GPU."""


class Driver:
    """A GPU whose state is not watched.

    ``failed`` says why no GPU is known, ``""`` if there is none. ``answered`` says that
    NVML answered. ``unwatched`` says why the GPU's state is unknown, ``""`` while it is
    known.
    """

    def __init__(self, gpu: Gpu, failed: str = "", unwatched: str = UNWATCHED) -> None:
        self.gpu = gpu
        self.failed = failed
        self.unwatched = unwatched
        self.answered = False

    def look(self, wait: float = ANSWER_S) -> Sample:  # noqa: ARG002
        """Return the GPU's current state; an empty sample after ``wait`` seconds."""
        return Sample()

    def samples(self, start: float, end: float) -> list[Sample]:  # noqa: ARG002
        """Return the samples of a stretch of time [s since 1970]."""
        return []

    def close(self) -> None:
        """End the process that watches, if there is one."""


class Watched(Driver):
    """The first of ``count`` GPUs, whose state another process prints line by line."""

    def __init__(self, count: int) -> None:
        super().__init__(Gpu(), unwatched="")
        self.absent = self.hung = False
        self._news = threading.Condition()
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._ended = self._silent = False
        # its own session: it must survive Ctrl-C, which ends only the search
        self._process = subprocess.Popen(  # noqa: S603, the command is ours
            [*nvml.COMMAND, str(os.getpid()), str(count)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self._wait_for_gpu()

    def _wait_for_gpu(self) -> None:
        """Wait until the process names the GPU, or says why it cannot."""
        with self._news:
            known = self._news.wait_for(
                lambda: self.answered or self.failed or self._ended, START_S
            )
            self.hung = not known
            if not self.answered and not self.failed:
                self.failed = f"no answer in {START_S:g} s" if self.hung else "it ended"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._take(nvml.read(line))
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _take(self, event: Gpu | Sample | nvml.Failed | None) -> None:
        with self._news:
            match event:
                case Gpu():
                    self.gpu, self.answered = event, True
                case nvml.Failed():
                    self.failed, self.absent = event
                    self.answered = not event.failed
                case Sample():
                    self._samples.append(event)
                    self._silent = False
            self._news.notify_all()

    def look(self, wait: float = ANSWER_S) -> Sample:
        """Return the first sample taken from now on; an empty one if none comes."""
        asked = time.time()
        with self._news:
            # the first sample takes longer if the driver has to start
            patience = wait if self._samples else START_S
            patience = 0.0 if self._silent else patience
            self._news.wait_for(lambda: self._ended or self._last() >= asked, patience)
            if self._last() >= asked:
                self.unwatched = ""
                return self._samples[-1]
            if not self._silent:
                self.unwatched = f"no answer in {patience:g} s"
            if self._ended:
                self.unwatched = "the process that watches it ended"
            self._silent = True
            return Sample()

    def _last(self) -> float:
        return (self._samples[-1].time or 0.0) if self._samples else 0.0

    def samples(self, start: float, end: float) -> list[Sample]:
        """Return the samples of a stretch of time [s since 1970]."""
        with self._news:
            return [s for s in self._samples if s.time and start <= s.time <= end]

    def close(self) -> None:
        """End the process; do not wait for one that hangs in the driver."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._reader.join(1.0)


def watched(count: int = 1) -> Driver:
    """Return the GPU by NVML; the caller closes it.

    Of several GPUs it is the first, and the states are of all together.
    """
    found = Watched(count)
    if found.answered:
        return found
    found.close()
    how = "gives" if found.hung else "fails:"
    return Driver(Gpu(), "" if found.absent else f"NVML {how} {found.failed}")


def _find(count: int) -> Driver:
    """Ask NVML and then torch, unless NVML knows of no GPU."""
    driver = watched(count)
    if driver.answered:
        return driver
    answers, _ = probe.ask("cuda", probe.GPU_STAGES)
    return Driver(probe.gpu(answers), driver.failed)


_current: tuple[tuple[object, ...], Driver] | None = None


def current(count: int = 1) -> Driver:
    """Return the driver of the GPUs that trials run on: ``count`` of them.

    It is looked up once per process, and again after ``ENVIRONMENT`` changed.
    """
    global _current
    key = (count, *map(os.environ.get, ENVIRONMENT))
    if _current is None or _current[0] != key:
        close()
        _current = key, _find(count)
    return _current[1]


def close() -> None:
    """End the process that watches; ``current`` starts another."""
    global _current
    if _current is not None:
        _current[1].close()
        _current = None


atexit.register(close)
