"""Bytes of tensors that are alive while torch code runs, and their peak by phase.

Counts every storage that an operation returns until it is freed, as a caching
allocator's ``allocated`` does, but without rounding. Meta tensors count nothing. A
dispatch mode makes torch add gradients out of place where several meet
(``loss_bytes.py``).
"""

from __future__ import annotations

import weakref
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
_Mode: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode
_leaves: Any = import_module("torch.utils._pytree").tree_leaves


class LiveBytes(_Mode):  # type: ignore[misc]
    """While entered, ``peaks`` holds the most bytes alive in each ``phase``."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = ""
        self.peaks: dict[str, int] = {}
        self._alive: dict[int, int] = {}
        self._total = 0
        self._resize = torch.UntypedStorage.resize_

    def __enter__(self) -> LiveBytes:
        """Follow FSDP too, which frees gathered weights by resizing storages."""
        torch.UntypedStorage.resize_ = self._resized()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        torch.UntypedStorage.resize_ = self._resize
        super().__exit__(*error)

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        for leaf in _leaves(result):
            for tensor in _parts(leaf):
                self._see(tensor.untyped_storage())
        return result

    def _resized(self) -> Any:
        resize = self._resize

        def resize_and_count(storage: Any, size: int) -> Any:
            result = resize(storage, size)
            self._see(storage)
            return result

        return resize_and_count

    def _see(self, storage: Any) -> None:
        key, size = id(storage), storage.nbytes()
        if key not in self._alive:
            weakref.finalize(storage, self._free, key)
        self._total += size - self._alive.get(key, 0)
        self._alive[key] = size
        self.peaks[self.phase] = max(self.peaks.get(self.phase, 0), self._total)

    def _free(self, key: int) -> None:
        self._total -= self._alive.pop(key, 0)


def _parts(value: Any) -> list[Any]:
    """The plain tensors inside a result, none for other values and meta tensors."""
    if not isinstance(value, torch.Tensor) or value.device.type == "meta":
        return []
    if not hasattr(value, "__tensor_flatten__"):
        return [value]
    names, _ = value.__tensor_flatten__()
    return [part for name in names for part in _parts(getattr(value, name))]
