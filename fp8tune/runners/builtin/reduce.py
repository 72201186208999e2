"""Let two ranks add numbers, to see whether trials of several ranks can run here.

``python -m fp8tune.runners.builtin.reduce DEVICE PARENT`` is one of these ranks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from fp8tune.runners.builtin import launch
from fp8tune.runners.orphan import die_with_parent
from fp8tune.runners.process import module_command, run_worker

RANK = module_command("fp8tune.runners.builtin.reduce")
LONGEST_S = 180.0
"""How long importing torch, joining and adding may take [s]."""
SILENCE_S = 90.0


def try_two(device: str, rank: Sequence[str] = RANK) -> tuple[str, str]:
    """Return what two ranks added by and how long it took, or why they could not.

    ``rank`` is the command of one of them.
    """
    command = [*launch.COMMAND, str(os.getpid()), "2", *rank, device]
    stages = dict.fromkeys(("start", "join", "reduce"), SILENCE_S)
    result = run_worker(command, stages, LONGEST_S)
    for event in result.events:
        if isinstance(done := event.get("done"), dict):
            return f"{done.get('backend')} in {done.get('seconds')} s", ""
        if isinstance(failed := event.get("failed"), dict):
            return "", f"{failed.get('error')}: {failed.get('message')}"
    if result.ended == "late":
        return "", f"no answer in stage {result.stage} within {result.seconds:.0f} s"
    return "", f"a rank ended with code {result.code} in stage {result.stage}"


def say(**fields: Any) -> None:
    """Print one line for the parent."""
    print(json.dumps({"at": time.time(), **fields}), flush=True)


def add(device: str) -> dict[str, Any]:
    """Add one of each rank, and return by which backend and in what time [s]."""
    import torch
    import torch.distributed as dist

    from fp8tune.runners.builtin.team import join

    say(stage="join")
    join(device)
    say(stage="reduce")
    start = time.perf_counter()
    ones = torch.ones(1, device=device)
    dist.all_reduce(ones)
    if ones.item() != dist.get_world_size():
        raise RuntimeError(f"the sum of the ranks is {ones.item():g}")
    seconds = round(time.perf_counter() - start, 2)
    return {"backend": "NCCL" if device == "cuda" else "gloo", "seconds": seconds}


def main(device: str) -> None:
    """Be one of the ranks."""
    try:
        say(done=add(device))
    except BaseException as error:  # the parent must learn about any error
        text = " ".join(str(error).split())[:300]
        say(failed={"error": type(error).__name__, "message": text})
        raise SystemExit(1) from None
    os._exit(0)  # process groups may hang at exit


if __name__ == "__main__":
    die_with_parent(int(sys.argv[-1]))
    main(sys.argv[1])
