"""Loss curves of real training here: bf16 seeds, FP8, and FP8 with broken scales.

The rehearsal's model on the CPU, on the bytes of Python's standard library. Runs of
``same`` see the same batches in the same order, those of ``own`` each in an order of
their own. Three ways to break FP8, each patched into torchao's casts:

- ``underflow``: the scale of the gradients is too small, so most become 0;
- ``saturated``: all scales stay those of the first step, a little too large, and larger
  values are clipped;
- ``overflow``: scales stay those of the first step, with room for four times larger
  values, and values beyond that become NaN.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.paths import ROOT
from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.builtin.spec import Spec
from fp8tune.search.plan import read_config
from tests.support.curves import CURVES, recorded, table

STEPS, BATCH = 400, 8
CONFIG = ROOT / "configs" / "rehearsal_cpu.toml"
KNOBS = {
    "train.batch_size": BATCH,
    "train.grad_accum_steps": 1,
    "train.activation_checkpointing": "none",
}
TABLES = ROOT / "docs" / "runs"
SHOWN = {
    "bf16-seed0.csv": ("bf16", "same", "", 0),
    "bf16-seed1.csv": ("bf16", "same", "", 1),
    "bf16-seed2.csv": ("bf16", "same", "", 2),
    "fp8.csv": ("fp8", "same", "", 0),
    "fp8-underflow.csv": ("fp8", "same", "underflow", 0),
}
"""Runs that the guide compares: precision, data, fault and seed."""
SHRUNK = 2.0**-25
"""What ``underflow`` multiplies the scale of gradients by."""
ENLARGED, ROOM = 16.0, 0.25
"""What ``saturated`` and ``overflow`` multiply the first step's scales by."""


class Kind(NamedTuple):
    """Runs of one precision on one order of the data, with one fault or none."""

    precision: str
    data: str
    fault: str
    seeds: int


KINDS = (
    Kind("bf16", "same", "", 12),
    Kind("fp8", "same", "", 4),
    Kind("fp8", "same", "underflow", 2),
    Kind("fp8", "same", "saturated", 2),
    Kind("fp8", "same", "overflow", 2),
    Kind("bf16", "own", "", 12),
    Kind("fp8", "own", "", 4),
)


def spec(precision: str, seed: int, steps: int) -> Spec:
    """Return the rehearsal's model in a precision."""
    config = read_config(str(CONFIG), CONFIG.read_bytes(), Target("", 1))
    runner = Builtin(config.trainer, config.loaded, config.job.target, Setup("cpu"))
    made = runner.spec({**KNOBS, "train.mixed_precision": precision})
    return made._replace(seed=seed, steps=steps)


@contextlib.contextmanager
def broken(fault: str) -> Iterator[None]:
    """Patch a fault into torchao's casts for the length of a block."""
    from torchao.float8 import float8_linear
    from torchao.float8.float8_training_tensor import (
        GemmInputRole,
        hp_tensor_and_scale_to_float8,
    )
    from torchao.float8.float8_utils import tensor_to_scale

    first: dict[Any, Tensor] = {}

    def cast(
        value: Tensor,
        dtype: torch.dtype,
        config: Any,
        gemm_input_role: Any = GemmInputRole.INPUT,
        **_: Any,
    ) -> Any:
        scale = tensor_to_scale(value, dtype)
        if fault == "underflow":
            if gemm_input_role is GemmInputRole.GRAD_OUTPUT:
                scale = scale * SHRUNK
        else:
            times = ENLARGED if fault == "saturated" else ROOM
            key = gemm_input_role, tuple(value.shape)
            scale = first.setdefault(key, scale * times)
        if fault == "overflow" and value.abs().max() * scale > torch.finfo(dtype).max:
            value = value * math.nan
        return hp_tensor_and_scale_to_float8(
            value, scale, dtype, config, gemm_input_role
        )

    original = float8_linear.hp_tensor_to_float8_dynamic
    if fault:
        float8_linear.hp_tensor_to_float8_dynamic = cast
    try:
        yield
    finally:
        float8_linear.hp_tensor_to_float8_dynamic = original


def text() -> Tensor:
    """Return the bytes of the modules of Python's standard library, as token ids."""
    modules = sorted(Path(os.__file__).parent.glob("*.py"))
    every = b"\n".join(path.read_bytes() for path in modules)
    return torch.frombuffer(bytearray(every), dtype=torch.uint8).long()


def batches(made: Spec, order: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs and labels [micro_batch, seq_len], shuffled by a seed."""
    tokens, size = text(), made.seq_len + 1
    rows = tokens[: len(tokens) // size * size].view(-1, size)
    shuffled = torch.Generator().manual_seed(order)
    places = torch.randperm(len(rows), generator=shuffled)
    for first in range(0, len(rows), made.micro_batch):
        batch = rows[places[first : first + made.micro_batch]]
        yield batch[:, :-1].contiguous(), batch[:, 1:].contiguous()


def trained(made: Spec, order: int) -> dict[str, list[float]]:
    """Return the series of a run, up to the first step that is not finite."""
    from fp8tune.runners.builtin.convert import build
    from fp8tune.runners.builtin.step import Training

    model, _ = build(made)
    training = Training(model, made, batches(made, order))
    losses, norms = [], []
    for _ in range(made.steps):
        step = training.step()
        if not (math.isfinite(step.loss) and math.isfinite(step.grad_norm)):
            break
        losses.append(round(step.loss, 3))
        norms.append(round(step.grad_norm, 2))
    return {"losses": losses, "grad_norms": norms}


def every(kinds: Sequence[Kind], steps: int) -> Iterator[dict[str, Any]]:
    """Yield all runs, one after the other."""
    for kind in kinds:
        for seed in range(kind.seeds):
            made = spec(kind.precision, seed, steps)
            about = {**kind._asdict(), "seeds": None, "seed": seed, "steps": steps}
            about["tokens_per_step"] = made.tokens_per_step()
            with broken(kind.fault):
                curve = trained(made, _order(kind, seed))
            yield {k: v for k, v in about.items() if v is not None} | curve


def _order(kind: Kind, seed: int) -> int:
    """Return the seed of the order of a run's data."""
    own = 1000 + 2 * seed + (kind.precision == "fp8")
    return own if kind.data == "own" else 42


def tables() -> dict[str, str]:
    """Return the runs that the guide compares, as CSV files by name."""
    names = "precision", "data", "fault", "seed"
    every = {tuple(run[name] for name in names): run for run in recorded()}
    return {name: table(every[key]) for name, key in SHOWN.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and write one JSON line for each run."""
    parser = argparse.ArgumentParser("benchmarks.verify.loss_curves")
    parser.add_argument("--output", type=Path, default=CURVES)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--kinds", default="", help="numbers of the kinds to train")
    parser.add_argument("--tables", action="store_true", help="write docs/runs alone")
    options = parser.parse_args(arguments)
    if options.tables:
        for name, lines in tables().items():
            (TABLES / name).write_text(lines, encoding="utf-8")
        return 0
    chosen = map(int, options.kinds.split(",")) if options.kinds else range(len(KINDS))
    torch.set_num_threads(1)
    with gzip.open(options.output, "wt", encoding="utf-8") as file:
        for run in every([KINDS[number] for number in chosen], options.steps):
            print(json.dumps(run), file=file, flush=True)
            last = run["losses"][-1:], len(run["losses"])
            print(*list(run.values())[:4], *last, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
