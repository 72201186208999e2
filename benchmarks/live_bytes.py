"""Bytes that torch's CPU allocator has given out while code runs, and their peak.

By torch's profiler, which is told of every allocation: gradients that meet are added
in place, as on a GPU. Under a dispatch mode torch adds them out of place, and chunked
losses, tied embeddings and experts seem to need more.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MARK = "phase: "
MEMORY = "[memory]"


class LiveBytes:
    """Once left, ``peaks`` holds the most bytes that were alive in each ``phase``."""

    def __init__(self, phase: str) -> None:
        self.peaks: dict[str, int] = {}
        self._first = phase
        self._torch: Any = import_module("torch.profiler")
        cpu = self._torch.ProfilerActivity.CPU
        self._profile = self._torch.profile(
            activities=[cpu], profile_memory=True, acc_events=True
        )

    def enter(self, phase: str) -> None:
        """The code does something else from here on."""
        with self._torch.record_function(f"{MARK}{phase}"):
            pass

    def __enter__(self) -> LiveBytes:
        self._profile.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._profile.__exit__(*error)
        phase, alive = self._first, 0
        events = self._profile.profiler.kineto_results.events()
        for event in sorted(events, key=lambda event: event.start_ns()):
            name = event.name()
            if name == MEMORY:
                alive += event.nbytes()
                self.peaks[phase] = max(self.peaks.get(phase, 0), alive)
            elif name.startswith(MARK):
                phase = name.removeprefix(MARK)
