"""Peak memory of two training steps of KempnerForge, phase by phase, on the CPU.

Runs the trainer's own model, FSDP2, tensor and expert parallelism, checkpointing,
loss and optimizer for rank 0 of any world size: collectives go to torch's fake
process group, which allocates what NCCL would and moves nothing. Shapes are small,
so that every term of the memory model can be told from the others. The recorded
peaks are what the facts ``memory.*`` are checked against; that they are true of a
GPU too is shown by the H200 runs of ``docs/accuracy.md``.

The cases are those of the recorded file, which holds their configs. To add one, add its
``name``, ``config`` and ``world_size`` there and run it with ``--only``.

What a GPU does differently: compiled blocks (not run here) keep and recompute less,
and an attention kernel may return its output in another layout (2 bytes per token
and hidden unit).
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.fake_mesh import (
    build_mesh,
    collapse_routing,
    reduce_without_temporaries,
)
from benchmarks.options import for_checkout
from benchmarks.paths import RESULTS
from benchmarks.train_steps import pipeline_steps, plain_steps
from tests.support.live_bytes import LiveBytes

RECORDED = RESULTS / "step_memory.json"
PHASES = ("init", "forward", "loss", "backward", "optimizer")


class Case(NamedTuple):
    """A small config and the number of GPUs it is for."""

    name: str
    config: str
    world_size: int


def main(arguments: list[str] | None = None) -> int:
    """Run the recorded cases again, print their peaks and save them."""
    parser = for_checkout("step_memory", __doc__)
    parser.add_argument(
        "--only",
        default="",
        help="cases whose name contains this; the others stay as recorded",
    )
    parser.add_argument("--output", type=Path, default=RECORDED)
    options = parser.parse_args(arguments)
    recorded = json.loads(RECORDED.read_text())["cases"]
    chosen = [Case(*map(row.get, Case._fields)) for row in recorded]
    chosen = [case for case in chosen if options.only in case.name]
    rows = [
        {**case._asdict(), "peaks": peaks}
        for case, peaks in measured(options.checkout, chosen)
    ]
    environment = machine.describe_run(options.checkout, options.commit, "cpu")
    print("\n".join(f"- {key}: {value}" for key, value in environment.items()))
    print(f"\n{show(rows)}")
    new = {row["name"]: row for row in rows}
    data = {
        "environment": environment,
        "cases": [new.get(row["name"], row) for row in recorded],
    }
    options.output.write_text(json.dumps(data, indent=1) + "\n")
    return 0


def measured(checkout: Path, chosen: list[Case]) -> Iterator[tuple[Case, Any]]:
    """Run the cases, each in a process of its own: none frees what another took."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    with context.Pool(2, maxtasksperchild=1) as pool:
        found = pool.imap(partial(run, checkout), chosen, 1)
        for case, peaks in zip(chosen, found, strict=True):
            print(case.name, peaks, file=sys.stderr, flush=True)
            yield case, peaks


def run(checkout: Path, case: Case) -> dict[str, int]:
    """The most bytes alive in each phase of two steps."""
    sys.path.append(str(checkout))
    logging.disable(logging.WARNING)
    torch: Any = import_module("torch")
    loader: Any = import_module("kempnerforge.config.loader")
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(case.config)
        file.flush()
        config = loader.load_config(file.name, cli_args=[])
    config.validate(case.world_size)
    torch.manual_seed(0)
    collapse_routing()
    reduce_without_temporaries()
    mesh = build_mesh(config, case.world_size)
    with LiveBytes("init") as live:
        steps = pipeline_steps if config.distributed.pp > 1 else plain_steps
        steps(config, mesh, live)
    return {phase: live.peaks.get(phase, 0) for phase in PHASES}


def show(rows: list[dict[str, Any]]) -> str:
    """The peaks as a Markdown table [MiB]."""
    lines = [
        (row["name"], *(f"{row['peaks'][phase] / 2**20:.2f}" for phase in PHASES))
        for row in rows
    ]
    return machine.table(lines, ("peak [MiB]", *PHASES))


if __name__ == "__main__":
    sys.exit(main())
