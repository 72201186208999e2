"""What is seen of a run, without changing what it does.

The trainer's functions are wrapped before the training script imports them; a wrapper
looks at what goes in and passes it on.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from benchmarks.fp8_shapes import Gemm, on_paper
from benchmarks.on_gpu.linears import milliseconds

GIB = 2**30


class Observer:
    """Watches a run for the quantities named (``experiment.OBSERVED``)."""

    def __init__(self, names: list[str]) -> None:
        self.names = set(names)
        self.model: Any = None
        self.unset = 0
        self.ends: list[float] = []
        self.tokens: list[int] = []
        self.rate: float | None = None
        self.gemms: set[Gemm] = set()
        self.kept = Kept()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside."""
        training: Any = import_module("kempnerforge.training")
        tracker: Any = import_module("kempnerforge.metrics.tracker")
        look_at(training, "build_optimizer", self._model)
        if "last_rate" in self.names:
            look_at(training, "build_scheduler", self._optimizer)
        look_at(tracker.MetricsTracker, "end_step", self._step)
        if self.names & {"refused_forward", "refused_backward"}:
            float8: Any = import_module("torchao.float8.float8_linear")
            look_at(float8.Float8Linear, "forward", self._gemm)
        if "kept_gib" in self.names:
            with self.kept.counting():
                yield
        else:
            yield

    def _model(self, model: Any, *_rest: Any, **_options: Any) -> None:
        self.model = model
        self.kept.know(model)
        weights = (p for n, p in model.named_parameters() if n.endswith("norm.weight"))
        self.unset = sum(bool((_local(p) != 1).any()) for p in weights)

    def _optimizer(self, optimizer: Any, *_rest: Any, **_options: Any) -> None:
        optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, optimizer: Any, *_rest: Any) -> None:
        self.rate = float(optimizer.param_groups[0]["lr"])

    def _step(self, _tracker: Any, *_rest: Any, **values: Any) -> None:
        self.ends.append(time.perf_counter())
        self.tokens.append(values["tokens_in_step"])

    def _gemm(self, linear: Any, tokens: Any) -> None:
        m = tokens.numel() // linear.in_features
        self.gemms.add(Gemm(m, linear.in_features, linear.out_features))

    def seen(self) -> dict[str, Any]:
        """What is known of the quantities named; the rest is left out."""
        found = {"steps": len(self.ends)}
        for name in sorted(self.names - {"error", "failed_at", "steps"}):
            value = getattr(self, f"_{name}")()
            if value is not None:
                found[name] = value
        return found

    def _step_ms(self) -> float | None:
        times = [b - a for a, b in zip(self.ends, self.ends[1:], strict=False)]
        later = times[len(times) // 2 :]
        return round(1000 * statistics.median(later), 2) if later else None

    def _last_rate(self) -> float | None:
        return self.rate

    def _tokens_per_step(self) -> int | None:
        return self.tokens[-1] if self.tokens else None

    def _all_parameters(self) -> int | None:
        if self.model is None:
            return None
        return sum(int(p.numel()) for p in self.model.parameters())

    def _local_parameters(self) -> int | None:
        if self.model is None:
            return None
        return sum(int(_local(p).numel()) for p in self.model.parameters())

    def _norms_unset(self) -> int | None:
        return None if self.model is None else self.unset

    def _checkpointed(self) -> int | None:
        return self._modules("CheckpointWrapper")

    def _fp8_linears(self) -> int | None:
        return self._modules("Float8Linear")

    def _modules(self, kind: str) -> int | None:
        if self.model is None:
            return None
        return sum(type(m).__name__.endswith(kind) for m in self.model.modules())

    def _graphs(self) -> int:
        counters: Any = import_module("torch._dynamo.utils").counters
        return int(counters["stats"]["unique_graphs"])

    def _graph_breaks(self) -> int:
        counters: Any = import_module("torch._dynamo.utils").counters
        return int(sum(counters["graph_break"].values()))

    def _kept_gib(self) -> float | None:
        return round(self.kept.most / GIB, 6) if self.kept.most else None

    def _peak_gib(self) -> float | None:
        cuda: Any = import_module("torch").cuda
        if not cuda.is_available():
            return None
        return round(float(cuda.max_memory_allocated()) / GIB, 3)

    def _slowest_gain(self) -> float | None:
        cuda: Any = import_module("torch").cuda
        if self.model is None or not self.tokens or not cuda.is_available():
            return None
        shapes = {
            Gemm(self.tokens[-1], m.in_features, m.out_features)
            for m in self.model.modules()
            if type(m).__name__ == "Float8Linear"
        }
        gains = [
            milliseconds(*shape, "cuda", fp8=False)
            / milliseconds(*shape, "cuda", fp8=True)
            for shape in shapes
        ]
        return round(min(gains), 3) if gains else None

    def _refused_forward(self) -> int:
        return sum(on_paper(gemm).refused == "forward" for gemm in self.gemms)

    def _refused_backward(self) -> int:
        return sum(on_paper(gemm).refused == "backward" for gemm in self.gemms)


def look_at(owner: Any, name: str, look: Callable[..., None]) -> None:
    """Show the arguments of every call of ``owner.name`` to ``look`` first."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def watched(*arguments: Any, **options: Any) -> Any:
        look(*arguments, **options)
        return real(*arguments, **options)

    setattr(owner, name, watched)


class Kept:
    """The most bytes that autograd keeps at once for backward passes."""

    def __init__(self) -> None:
        self.most = 0
        self._now = 0
        self._holders: dict[int, int] = {}
        self._known: set[int] = set()

    def know(self, model: Any) -> None:
        """Leave the model's own parameters and buffers out."""
        tensors = (*model.parameters(), *model.buffers())
        self._known |= {_address(_local(tensor)) for tensor in tensors}

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is kept by what runs inside."""
        graph: Any = import_module("torch.autograd.graph")
        with graph.saved_tensors_hooks(self._pack, lambda held: held.tensor):
            yield

    def _pack(self, tensor: Any) -> _Held:
        return _Held(tensor, self)

    def take(self, address: int, size: int) -> None:
        """One holder more of a storage."""
        holders = self._holders.get(address, 0)
        self._holders[address] = holders + 1
        if not holders and address not in self._known:
            self._now += size
            self.most = max(self.most, self._now)

    def release(self, address: int, size: int) -> None:
        """One holder less."""
        self._holders[address] -= 1
        if not self._holders[address] and address not in self._known:
            self._now -= size


class _Held:
    """A tensor for as long as autograd keeps it."""

    def __init__(self, tensor: Any, kept: Kept) -> None:
        self.tensor = tensor
        self._kept = kept
        storages = (part.untyped_storage() for part in parts(tensor))
        self._storages = [(s.data_ptr(), s.nbytes()) for s in storages]
        for address, size in self._storages:
            kept.take(address, size)

    def __del__(self) -> None:
        for address, size in self._storages:
            self._kept.release(address, size)


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _address(tensor: Any) -> int:
    return int(parts(tensor)[0].untyped_storage().data_ptr())


def parts(tensor: Any) -> list[Any]:
    """The plain tensors inside a tensor subclass such as torchao's FP8 ones."""
    torch: Any = import_module("torch")
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return [tensor] if isinstance(tensor, torch.Tensor) else []
    names, _ = flatten()
    return [part for name in names for part in parts(getattr(tensor, name))]
