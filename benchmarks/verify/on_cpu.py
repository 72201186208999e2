"""Run a trainer's own program on the CPU.

``python benchmarks/verify/on_cpu.py scripts/train.py CONFIG`` and
``python benchmarks/verify/on_cpu.py -m torchtitan.train --job.config_file CONFIG``
stand where ``torchrun`` would. The calls that insist on CUDA get the CPU instead; the
rest is the trainer's.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

AUTOMODEL = "nemo_automodel.cli.app"
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


if __name__ == "__main__":
    main()
