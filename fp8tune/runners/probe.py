"""Ask torch about the machine in a separate process, since a broken torch may hang.

``python -m fp8tune.runners.probe DEVICE PARENT STAGE...`` prints one JSON object per
line: a stage when it begins, then its result. It stops at the first failure.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from fp8tune.runners.gpu import Gpu
from fp8tune.runners.orphan import die_with_parent
from fp8tune.runners.process import module_command, run_worker

COMMAND = module_command("fp8tune.runners.probe")
LONGEST_S = 180.0
"""How long torch may take [s]; some cluster file systems need minutes."""
SILENCE_S = 90.0
GPU_STAGES = ("torch", "device")
"""The stages that find the GPU; the others are torchao and fp8."""
SIZE = 64
"""Of the matrices that are multiplied in FP8, a multiple of 16."""


def ask(
    device: str,
    stages: Sequence[str] = (),
    command: Sequence[str] = (),
    silence: float = SILENCE_S,
) -> tuple[dict[str, Any], tuple[str, str]]:
    """Return torch's answers, and the stage that failed with its reason.

    Without ``stages`` it asks all of them. ``command`` is the other process's command,
    ``silence`` the longest time of one stage [s].
    """
    stages = stages or tuple(_STAGES)
    deadlines = dict.fromkeys(("start", *stages), silence)
    line = [*(command or COMMAND), device, str(os.getpid()), *stages]
    result = run_worker(line, deadlines, LONGEST_S)
    answers: dict[str, Any] = {}
    for event in result.events:
        answers |= event
    failed = answers.pop("failed", None)
    answers.pop("stage", None)
    why = ""
    if result.ended == "late":
        why = f"no answer within {result.seconds:.0f} s"
    elif isinstance(failed, dict):
        why = f"{failed.get('error')}: {failed.get('message')}"
    elif result.code != 0:
        why = f"ended with code {result.code}"
    return answers, (result.stage, why) if why else ("", "")


def gpu(answers: dict[str, Any]) -> Gpu:
    """Return the GPU in torch's answers; an empty one if torch can use none."""
    if "capability" not in answers:
        return Gpu()
    return Gpu(
        str(answers.get("device", "")),
        "",
        float(answers.get("memory_gib", 0.0)),
        str(answers["capability"]),
        "torch",
        int(answers.get("count", 1)),
    )


def say(**fields: Any) -> None:
    """Print one line to the parent."""
    print(json.dumps(fields), flush=True)


def main(device: str, stages: Sequence[str]) -> None:
    """Print what torch, the device, torchao and FP8 answer, for the named stages."""
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the order of NVML
    stage = ""
    try:
        for stage, look in _STAGES.items():
            if stage not in stages:
                continue
            say(stage=stage)
            say(**look(device))
    except BaseException as error:  # the parent must learn about any error
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
    found = {"device": about.name, "capability": capability, "memory_gib": memory}
    return {**found, "count": torch.cuda.device_count()}


def _torchao(_device: str) -> dict[str, Any]:
    import torchao
    from torchao.float8 import convert_to_float8_training  # noqa: F401

    return {"torchao": torchao.__version__}


def _fp8(device: str) -> dict[str, Any]:
    """Run one FP8 matmul, which torch refuses on GPUs without FP8."""
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
    die_with_parent(int(sys.argv[2]))
    main(sys.argv[1], sys.argv[3:])
