"""Bytes that torch's CPU allocator has given out while code runs, and their peak.

By torch's profiler, which sees every allocation: gradients that meet are added
in place, as on a GPU. Under a dispatch mode torch adds them out of place, and chunked
losses, tied embeddings and experts seem to need more.

The workspace of a kernel is not counted: it depends on the CPU. oneDNN's bf16 matmul
takes a float32 copy of its output where the CPU has AVX-512 without bf16 instructions,
and nothing on others. Nor are gloo's copies, which NCCL does not take and which another
thread may free, unseen. What else a thread frees unseen counts until its address is
given out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

MARK = "phase: "


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
        phase, alive, copies = self._first, 0, set()
        sizes: dict[int, int] = {}
        roots = self._profile.profiler.kineto_results.experimental_event_tree()
        for event in sorted(_events(roots), key=lambda event: event.start_time_ns):
            if _is_memory(event):
                memory = event.extra_fields
                if memory.alloc_size > 0 and _in_collective(event):
                    copies.add(memory.ptr)
                    continue
                if memory.ptr in copies:
                    copies.remove(memory.ptr)
                    if memory.alloc_size < 0:
                        continue
                if memory.alloc_size > 0:  # an address given out again was freed unseen
                    alive -= sizes.pop(memory.ptr, 0)
                    sizes[memory.ptr] = memory.alloc_size
                else:
                    sizes.pop(memory.ptr, None)
                alive += memory.alloc_size
                self.peaks[phase] = max(self.peaks.get(phase, 0), alive)
            elif event.name.startswith(MARK):
                phase = event.name.removeprefix(MARK)


def _events(siblings: list[Any]) -> Iterator[Any]:
    """Yield these events and all below them, but no workspace."""
    for event in siblings:
        yield event
        yield from _events(_without_workspace(event.children))


def _without_workspace(children: list[Any]) -> list[Any]:
    """Drop the memory that one operator both takes and frees itself."""
    taken: dict[int, int] = {}
    dropped = set()
    for index, child in enumerate(children):
        if _is_memory(child):
            memory = child.extra_fields
            if memory.alloc_size > 0:
                taken[memory.ptr] = index
            elif memory.ptr in taken:
                dropped |= {index, taken.pop(memory.ptr)}
    return [child for index, child in enumerate(children) if index not in dropped]


def _in_collective(event: Any) -> bool:
    while event is not None and not event.name.startswith("c10d::"):
        event = event.parent
    return event is not None


def _is_memory(event: Any) -> bool:
    return bool(event.tag.name == "Allocation")
