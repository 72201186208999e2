"""Traces of FP8 and bf16 training steps on this GPU, and what ``verify`` says of them.

Each case trains two linears and a head that stays in bf16. The kernels' names are kept
as data: they show, for instance, how cuBLASLt names GEMMs with E5M2 gradients.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torchao.float8 import Float8LinearConfig, convert_to_float8_training

from fp8tune.verify.evidence import Trace
from fp8tune.verify.trace import read
from fp8tune.verify.verdict import judge

RECIPES = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
COMPILED = {
    "eager": None,
    "compiled": "default",
    "cuda-graphs": "reduce-overhead",
    "max-autotune": "max-autotune-no-cudagraphs",
}
SLOW = "max-autotune"
"""Tuning its kernels takes minutes, so it is recorded only where it is asked for."""
SIZES = {"cuda": (4096, 2048, 8192), "cpu": (64, 32, 64)}
"""Tokens, hidden size and FFN size, by the device."""


Row = dict[str, Any]
"""What verify says of a case, and the names of the kernels, for a line of JSON."""


@dataclass(frozen=True)
class Case:
    """A step to record, and the verdicts that are right without a config."""

    name: str
    recipe: str
    mode: str | None
    right: tuple[str, ...]
    trains: bool = True


def cases(device: str, *, slow: bool = False) -> Iterator[Case]:
    """Every case, the slow ones if asked for; on the CPU only eager ones."""
    modes = COMPILED if device == "cuda" else {"eager": None}
    modes = {way: mode for way, mode in modes.items() if slow or way != SLOW}
    for way, mode in modes.items():
        yield Case(f"bf16-{way}", "", mode, ("not-fp8",))
        for recipe in RECIPES:
            # one of three GEMMs is in bf16, and the head: less than half may be left
            kept = ("cannot-tell",) if recipe.endswith("gw_hp") else ()
            yield Case(f"{recipe}-{way}", recipe, mode, ("verified", *kept))
    yield Case("inference", "tensorwise", None, ("cannot-tell",), trains=False)


def record(case: Case, device: str, path: Path) -> None:
    """Write the trace of one step after three that are not recorded."""
    step = _step(case, device)
    for _ in range(3):
        step()
    activities = [ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, record_shapes=True) as recorded:
        step()
        if device == "cuda":
            torch.cuda.synchronize()
    recorded.export_chrome_trace(str(path))


def _step(case: Case, device: str) -> Callable[[], None]:
    tokens, hidden, ffn = SIZES[device]
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(hidden, ffn, bias=False),
        nn.ReLU(),
        nn.Linear(ffn, hidden, bias=False),
        nn.ReLU(),
        nn.Linear(hidden, hidden, bias=False),
    ).to(device, torch.bfloat16)
    if case.recipe:
        config = Float8LinearConfig.from_recipe_name(case.recipe)
        convert_to_float8_training(
            model, config=config, module_filter_fn=lambda _, name: name != "4"
        )
    torch._dynamo.reset()
    run: Any = torch.compile(model, mode=case.mode) if case.mode else model
    x: Tensor = torch.randn(tokens, hidden, device=device, dtype=torch.bfloat16)

    def train() -> None:
        model.zero_grad()
        run(x).float().square().mean().backward()

    @torch.no_grad()
    def infer() -> None:
        run(x)

    return train if case.trains else infer


def measure(todo: Iterable[Case], device: str, folder: Path) -> Iterator[Row]:
    """Record cases to ``folder``; yield what verify says of each as it is recorded."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in todo:
        path = folder / f"{case.name}.json"
        record(case, device, path)
        trace = read(path)
        word = judge([], [trace]).word
        text = path.read_bytes()
        with gzip.open(f"{path}.gz", "wb") as file:
            file.write(text)
        path.unlink()
        events = json.loads(text)["traceEvents"]
        kernels = {event["name"] for event in events if event.get("cat") == "kernel"}
        row = {"case": case.name, **_counts(trace), "kernels": sorted(kernels)}
        yield {**row, "word": word, "right": case.right}


def _counts(trace: Trace) -> Row:
    return {
        "fp8": trace.fp8.calls,
        "other": trace.other.calls,
        "unclear": trace.unclear.calls,
        "backward": trace.backward,
        "compiled": trace.compiled,
    }
