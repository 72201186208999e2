"""The process of one trial: reads a spec, trains, and reports line by line.

``python -m fp8tune.runners.builtin.worker SPEC_FILE PARENT`` prints one JSON object per
line: ``{"stage": ...}`` when a stage begins (import, ranks if there are several, gpu on
a GPU, build, convert, compile if configured, first_step, steady, and profile),
``{"step": ...}`` after each step, and at the end ``{"done": ...}`` or ``{"failed":
...}``. The parent, whose process id it gets, enforces deadlines of the stages. Of
several ranks (``launch``) each is such a process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from fp8tune.runners.gpu import allocator
from fp8tune.runners.orphan import die_with_parent

if TYPE_CHECKING:
    from fp8tune.runners.builtin.spec import Spec
    from fp8tune.runners.builtin.step import Training


def say(**fields: Any) -> None:
    """Print one line for the parent."""
    print(json.dumps({"at": time.time(), **fields}), flush=True)


def main(path: str, parent: int) -> None:
    """Run the trial that a file describes, while the parent process lives."""
    die_with_parent(parent)
    say(stage="import")
    try:
        ranks = _run(path)
    except BaseException as error:  # the parent must learn about any error
        say(failed=_failure(error))
        raise SystemExit(1) from None
    if ranks > 1:
        os._exit(0)  # process groups may hang at exit


def _run(path: str) -> int:
    """Run the trial and return the number of its ranks."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # leaves cores to others
    # the order of NVML
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

    from fp8tune.runners.builtin.convert import build
    from fp8tune.runners.builtin.data import batches
    from fp8tune.runners.builtin.measure import (
        Device,
        first_step,
        measure,
        of_fullest,
        train_for_losses,
    )
    from fp8tune.runners.builtin.spec import from_json
    from fp8tune.runners.builtin.step import Training

    with open(path, encoding="utf-8") as file:
        spec = from_json(json.load(file))
    _reach_device(spec)
    device = Device(spec.device)
    say(stage="build", device=device.name, **_versions())
    model, counts = build(spec, lambda: say(stage="convert"))
    training = Training(model, spec, batches(spec))
    device.forget_building()
    if spec.compile or spec.loss_compiled:
        say(stage="compile")
        training.try_micro_batch()
        device.wait()
    say(stage="first_step", **counts)
    first = first_step(training, device, say)
    say(stage="steady")
    run = train_for_losses if spec.steps else measure
    measured = run(training, device, spec, say, first)
    measured |= of_fullest(device.memory(), spec)
    profiled = _profiled(training, spec)
    say(done={**measured, **profiled})
    return spec.ranks


def _reach_device(spec: Spec) -> None:
    """Join the other ranks if there are any, and compute on the GPU if it has one."""
    if spec.ranks > 1:
        from fp8tune.runners.builtin.team import join

        say(stage="ranks")
        join(spec.device)
    if spec.device == "cuda":
        say(stage="gpu")
        touch()


def _profiled(training: Training, spec: Spec) -> dict[str, Any]:
    """Return how many FP8 matmuls a step has, counted here unless they were earlier."""
    from fp8tune.runners.builtin.measure import count_float8_matmuls

    say(stage="profile")
    known = {"float8_matmuls_counted_earlier": True} if spec.float8_matmuls else {}
    matmuls = spec.float8_matmuls
    if not matmuls and spec.precision == "fp8":
        matmuls = count_float8_matmuls(training)
    return {"float8_matmuls": matmuls, **known}


def _versions() -> dict[str, Any]:
    from importlib.metadata import version

    import torch

    names = {name: version(name) for name in ("torch", "torchao")}
    if not torch.version.cuda:
        return names
    return {**names, "cuda": torch.version.cuda, "allocator": allocator()}


def touch(device: str = "cuda") -> None:
    """Compute on the GPU once: a busy or broken one fails here, not in the model.

    The product makes cuBLAS allocate its workspace, as the model's first one would.
    """
    import torch

    ones = torch.ones(64, 64, dtype=torch.bfloat16, device=device)
    if (ones @ ones).ne(64).any():  # waits for the product
        raise RuntimeError("the GPU computes wrong results: 64 times 1 is not 64")


def _failure(error: BaseException) -> dict[str, str]:
    """Return the kind of a failure and its first words."""
    name = type(error).__name__
    text = " ".join(str(error).split())[:500]
    kind = "user"
    if _is_memory(error, text):
        kind = "oom"
    elif any(words in text for words in BROKEN):
        kind = "launch"
    elif isinstance(error, ArithmeticError) and "NaN" in text:
        kind = "nan"
    elif "torch._dynamo" in type(error).__module__ or "torch._inductor" in (
        type(error).__module__
    ):
        kind = "compile"
    return {"kind": kind, "error": name, "message": text}


MEMORY = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "can't allocate memory",
)
"""What says in a message that memory was short: cuBLAS, cuDNN and torch's CPU too.

torch raises ``CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling
`cublasCreate(handle)``` where the handle of a thread finds no memory
(discuss.pytorch.org/t/125450); that cuBLAS works at all is known from stage ``gpu``.
"""
BROKEN = (
    "uncorrectable ECC error encountered",
    "uncorrectable NVLink error detected during the execution",
    "Invalid access of peer GPU memory over nvlink or a hardware error",
    "unspecified launch failure",
    "CUDA-capable device(s) is/are busy or unavailable",
    "all CUDA-capable devices are busy or unavailable",
    "exclusive-thread device already in use by a different thread",
    "CUDA error: unknown error",
)
"""What says in a message that the GPU failed or was taken, which is not the setting.

These are words of ``cudaGetErrorString`` (libcudart 13.0; the second of the busy
devices until CUDA 10.2), which torch raises as ``AcceleratorError`` after ``CUDA error:
``.
"""


def _is_memory(error: BaseException, text: str) -> bool:
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or any(words.lower() in text.lower() for words in MEMORY)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
