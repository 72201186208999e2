"""The process that imports torch for ``fp8tune doctor``: a broken one may hang.

``python -m fp8tune.doctor.probe DEVICE PARENT`` prints one JSON object per line: the
stage that begins, then what was found in it; it ends where something fails.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from fp8tune.runners.orphan import die_with

SIZE = 64
"""Of the matrices that are multiplied in FP8, a multiple of 16."""


def say(**fields: Any) -> None:
    """One line to the parent."""
    print(json.dumps(fields), flush=True)


def main(device: str) -> None:
    """Look at torch, the device, torchao, FP8 and the compilers, in this order."""
    stage = ""
    try:
        for stage, look in _STAGES.items():
            say(stage=stage)
            say(**look(device))
    except BaseException as error:  # whatever it is, the parent must hear of it
        text = " ".join(str(error).split())[:300]
        say(failed={"stage": stage, "error": type(error).__name__, "message": text})
        raise SystemExit(1) from None


def _torch(_device: str) -> dict[str, Any]:
    import torch

    return {"torch": torch.__version__, "torch_cuda": torch.version.cuda}


def _device(device: str) -> dict[str, Any]:
    if device == "cpu":
        return {"device": "CPU"}
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call]
    about = torch.cuda.get_device_properties(0)
    capability = f"{about.major}.{about.minor}"
    memory = about.total_memory / 2**30
    return {"device": about.name, "capability": capability, "memory_gib": memory}


def _torchao(_device: str) -> dict[str, Any]:
    import torchao
    from torchao.float8 import convert_to_float8_training  # noqa: F401

    return {"torchao": torchao.__version__}


def _fp8(device: str) -> dict[str, Any]:
    """One FP8 matmul, which torch refuses on GPUs that have none."""
    import torch

    a = torch.ones(SIZE, SIZE, device=device).to(torch.float8_e4m3fn)
    one = torch.ones((), device=device)
    out = torch._scaled_mm(a, a.t(), one, one, out_dtype=torch.bfloat16)
    return {"fp8": bool((out == SIZE).all())}


_STAGES = {
    "torch": _torch,
    "device": _device,
    "torchao": _torchao,
    "fp8": _fp8,
}


if __name__ == "__main__":
    die_with(int(sys.argv[2]))
    main(sys.argv[1])
