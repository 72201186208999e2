"""Run a trainer's own program on the CPU, and record what each optimizer step did.

``python benchmarks/verify/on_cpu.py scripts/train.py CONFIG`` and
``python benchmarks/verify/on_cpu.py -m torchtitan.train --job.config_file CONFIG``
stand where ``torchrun`` would. The calls that insist on CUDA get the CPU instead; the
rest is the trainer's. With ``FP8TUNE_RECORD`` set, rank 0 appends one JSON line for
each step to that file: the learning rate, and checksums of the tokens, the gradients,
and the weights and the optimizer's state before and after. With ``FP8TUNE_SIGNAL`` set
to ``TERM:3`` or ``KILL:3`` it gets that signal with the third line.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

AUTOMODEL = "nemo_automodel.cli.app"
RECORD, SIGNAL = "FP8TUNE_RECORD", "FP8TUNE_SIGNAL"
STATISTICS = (
    *("active_bytes.all.peak", "reserved_bytes.all.peak"),
    *("num_alloc_retries", "num_ooms"),
)
"""What torchtitan reads of a GPU's memory."""
MEMORY: dict[str, Callable[..., Any]] = {
    "get_device_name": lambda *_: "CPU",
    "get_device_properties": lambda *_: type("Properties", (), {"total_memory": 1}),
    "reset_peak_memory_stats": lambda *_: None,
    "empty_cache": lambda: None,
    "memory_stats": lambda *_: dict.fromkeys(STATISTICS, 0),
    "set_device": lambda *_: None,
    "current_device": lambda: 0,
}
"""What trainers ask of a GPU's module that ``torch.cpu`` does not have."""


def main() -> None:
    """Run the program that the command line names."""
    arguments = sys.argv[1:]
    os.environ.setdefault("MASTER_ADDR", "localhost")
    for name, value in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)):
        os.environ.setdefault(name, str(value))
    torch: Any = import_module("torch")
    for name, stand_in in MEMORY.items():
        setattr(torch.cpu, name, stand_in)
    torch.cuda.set_device = lambda *_: None
    torch._utils._get_available_device_type = lambda: "cpu"
    barrier = torch.distributed.barrier
    torch.distributed.barrier = lambda *said, device_ids=None, **more: barrier(  # noqa: ARG005
        *said, **more
    )
    _profile_the_cpu()
    fsdp: Any = import_module("torch.distributed.fsdp").FSDPModule
    divide = fsdp.set_gradient_divide_factor

    def divide_on_gloo(module: Any, factor: float) -> None:
        module.set_force_sum_reduction_for_comms(True)  # gloo cannot scale and sum
        divide(module, factor)

    fsdp.set_gradient_divide_factor = divide_on_gloo
    if place := os.environ.get(RECORD):
        Recorder(Path(place), torch)
    if AUTOMODEL in arguments:
        import_module("benchmarks.automodel.step").on_cpu(torch)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        float8: Any = import_module("torchtitan.components.quantization.float8")
        float8.has_cuda_capability = lambda *_: True  # _scaled_mm has a CPU kernel
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        _stand_in()
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).parent))
        runpy.run_path(arguments[0], run_name="__main__")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # process groups may hang at exit


def _profile_the_cpu() -> None:
    """Let a profiler of a GPU that is not there profile the CPU alone."""
    profile: Any = import_module("torch.profiler").profile
    profiled = profile.__init__

    def without_gpu(self: Any, *said: Any, activities: Any = None, **more: Any) -> None:
        known = activities and [each for each in activities if each is not None]
        profiled(self, *said, activities=known, **more)

    profile.__init__ = without_gpu


def _stand_in() -> None:
    """Answer KempnerForge's calls that insist on CUDA."""
    root = Path.cwd()
    if (root / "kempnerforge").is_dir():
        from benchmarks.rule_evidence.worker import stand_in_for_cuda

        sys.path.insert(0, str(root))
        stand_in_for_cuda()


class Recorder:
    """Writes a line for each optimizer step of rank 0."""

    def __init__(self, place: Path, torch: Any) -> None:
        self.place, self.torch = place, torch
        self.tokens = 0
        self.line: dict[str, Any] = {}
        if os.environ["RANK"] != "0":
            return
        hooks: Any = import_module("torch.optim.optimizer")
        hooks.register_optimizer_step_pre_hook(self._before)
        hooks.register_optimizer_step_post_hook(self._after)
        torch.nn.modules.module.register_module_forward_pre_hook(self._forward)

    def _forward(self, module: Any, inputs: Any) -> None:
        if isinstance(module, self.torch.nn.Embedding):
            self.tokens = checksum([inputs[0]], self.tokens)

    def _before(self, optimizer: Any, *_: Any) -> None:
        if hasattr(optimizer, "optimizers"):  # torchtitan's container of them
            return
        self.line = {
            "lr": [group["lr"] for group in optimizer.param_groups],
            "tokens": self.tokens,
            "gradients": checksum(p.grad for p in _parameters(optimizer)),
            "before": _state(optimizer),
        }
        self.tokens = 0

    def _after(self, optimizer: Any, *_: Any) -> None:
        if hasattr(optimizer, "optimizers") or not self.line["tokens"]:
            return  # without tokens: the step with which torch makes empty states
        line = {**self.line, "after": _state(optimizer)}
        with self.place.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        name, colon, step = os.environ.get(SIGNAL, "").partition(":")
        if colon and len(self.place.read_text().splitlines()) == int(step):
            os.kill(os.getpid(), signal.Signals[f"SIG{name}"])


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _state(optimizer: Any) -> int:
    """A checksum of the weights and the optimizer's state."""
    found = checksum(_parameters(optimizer))
    for parameter in _parameters(optimizer):
        states = optimizer.state[parameter].items()
        found = checksum((value for _, value in sorted(states)), found)
    return found


def checksum(tensors: Any, start: int = 0) -> int:
    """The CRC-32 of the bytes of tensors; of a rank's own part of sharded ones."""
    torch: Any = import_module("torch")
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            continue
        plain = tensor.detach()
        plain = plain.to_local() if hasattr(plain, "to_local") else plain
        plain = getattr(plain, "_tensor", plain)
        flat = plain.contiguous().view(-1).view(torch.uint8)
        start = zlib.crc32(flat.numpy().tobytes(), start)
    return start


if __name__ == "__main__":
    main()
