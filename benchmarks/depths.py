"""The error of a model's memory that is extrapolated from two shallower models.

Trials of the built-in model run on the CPU at several depths, on rank 0 only. Their
peaks are read from torch's allocations. The deepest is extrapolated from two others, as
``fp8tune.runners.builtin.standin`` does if a model does not fit the GPU at hand:
linearly, by the closed form of the facts, and by the larger of the two.
"""

from __future__ import annotations

import argparse
import copy
import gc
import itertools
import json
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tomlkit

from benchmarks import machine
from benchmarks.fake_mesh import reduce_without_temporaries
from benchmarks.paths import RESULTS
from benchmarks.step_memory import Case
from fp8tune.job import Job, Target
from tests.support.live_bytes import LiveBytes

MIB = 2**20
DEPTHS = (2, 4, 8, 16)
PAIRS = ((4, 8), (2, 4))
"""Depths from which the last one is extrapolated."""
BASE: dict[str, dict[str, Any]] = {
    "model": {
        "dim": 256,
        "n_layers": 4,
        "n_heads": 16,
        "n_kv_heads": 4,
        "vocab_size": 2048,
        "ffn_hidden_dim": 896,
        "max_seq_len": 256,
    },
    "train": {
        "batch_size": 2,
        "seq_len": 256,
        "grad_accum_steps": 1,
        "compile_model": False,
        "activation_checkpointing": "full",
    },
    "distributed": {"dp_shard": -1},
}
FEW = {"model.vocab_size": 8192, "train.batch_size": 1, "train.seq_len": 64}
"""Few tokens against the vocabulary: embedding and head are the peak."""
SHAPES: dict[str, dict[str, Any]] = {
    "base": {},
    "large vocabulary": {"model.vocab_size": 16384},
    "few tokens": FEW,
    "experts": {"model.num_experts": 4, "model.moe_frequency": 2},
}


def main(arguments: list[str] | None = None) -> int:
    """Measure what is not recorded yet, and write the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.depths", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--output", type=Path, default=RESULTS / "depths.json")
    options = parser.parse_args(arguments)
    kept = json.loads(options.output.read_text()) if options.output.exists() else {}
    rows: dict[str, Any] = kept.get("cases", {})
    about = kept.get("environment", {})
    context = get_context("spawn")
    for one in cases():
        if one.name not in rows and options.only in one.name:
            with context.Pool(1) as pool:  # a process each: none frees another's memory
                rows[one.name] = pool.apply(peaks, (one,))
            print(one.name, rows[one.name], file=sys.stderr, flush=True)
            about = machine.describe("torch", "torchao")
            data = {"environment": about, "cases": rows}
            options.output.write_text(f"{json.dumps(data, indent=1)}\n")
    options.output.with_suffix(".md").write_text(page(about, rows))
    return 0


def cases() -> list[Case]:
    """Small configs whose peak stands at different instants."""
    found = []
    sizes = itertools.product(SHAPES.items(), (1, 8), (1, 2), ("none", "full"))
    for (name, shape), gpus, accumulated, ac in sizes:
        if gpus * accumulated > 8 and "model.vocab_size" in shape:
            continue  # on the CPU their gradients are added up row by row
        change = {
            "train.grad_accum_steps": accumulated,
            "train.activation_checkpointing": ac,
            **shape,
        }
        many = f"{gpus} GPU{'s' * (gpus > 1)}"
        title = f"{name}, AC {ac}, accumulation {accumulated}, {many}"
        tables = copy.deepcopy(BASE)
        for key, value in change.items():
            section, _, inside = key.partition(".")
            tables[section][inside] = value
        found.append(Case(title, tomlkit.dumps(tables), gpus))
    return found


def peaks(one: Case) -> dict[str, dict[str, float]]:
    """A case's peaks [MiB]: measured by depth, and extrapolated by pair of depths."""
    import torch

    from fp8tune.runners.builtin.standin import peak_by_shape
    from fp8tune.search.plan import read_config

    torch.set_num_threads(1)  # each thread of a matmul has a buffer of its own
    reduce_without_temporaries()
    target = Target("", one.world_size)
    config = read_config("a.toml", one.config.encode(), target)
    job = config.job.with_values({"optimizer.fused": False})
    measured = {n: trial_mib(job.with_values({"layers": n})) for n in DEPTHS}
    found: dict[str, dict[str, float]] = {
        "measured": {str(depth): peak for depth, peak in measured.items()},
        "line": {},
        "closed form": {},
    }
    for low, high in PAIRS:
        each = (measured[high] - measured[low]) / (high - low)
        two = [(depth, measured[depth]) for depth in (low, high)]
        name = f"from {low} and {high}"
        found["line"][name] = measured[high] + (DEPTHS[-1] - high) * each
        found["closed form"][name] = peak_by_shape(two, DEPTHS[-1], job)
    return found


def trial_mib(job: Job) -> float:
    """The peak of a trial's second step on the CPU [MiB].

    All tokens go to the first experts, as in the recorded steps of the trainer.
    """
    import torch

    from fp8tune.runners.builtin.convert import build
    from fp8tune.runners.builtin.data import batches
    from fp8tune.runners.builtin.spec import from_job
    from fp8tune.runners.builtin.step import Training

    given = {"device": "cpu", "dp_shard": job["shards"], "seed": 0}
    spec = from_job(job, **given)
    gc.collect()  # or what others have left would be freed meanwhile
    with LiveBytes("build") as live:
        model, _ = build(spec)
        for layer in model.layers if spec.experts else ():
            router = getattr(layer.mlp, "router", None)
            if router is not None:
                router.register_forward_hook(_first_experts)
        training = Training(model, spec, batches(spec))
        live.enter("step")
        training.step()
        training.step()
    if spec.dp_shard > 1:
        torch.distributed.destroy_process_group()
    return live.peaks["step"] / MIB


def _first_experts(_router: Any, _inputs: Any, logits: Any) -> Any:
    import torch

    return logits * 0 - torch.arange(logits.shape[-1])


def page(about: dict[str, str], rows: dict[str, dict[str, dict[str, float]]]) -> str:
    """The errors as a page of Markdown."""
    found = {
        f"{name}, {pair}": _errors(row, pair)
        for name, row in rows.items()
        for pair in row["line"]
    }
    columns = list(zip(*found.values(), strict=True))
    found |= {"lowest": [*map(min, columns)], "highest": [*map(max, columns)]}
    lines = [(name, *(f"{100 * x:+.2f}" for x in off)) for name, off in found.items()]
    head = (f"error at {DEPTHS[-1]} blocks [%]", "line", "closed form", "larger")
    environment = "\n".join(f"- {key}: {value}" for key, value in about.items())
    text = f"{__doc__}\n{environment}\n\n{machine.table(lines, head)}\n"
    return f"# Memory of a model from two depths\n\n{text}"


def _errors(row: dict[str, dict[str, float]], pair: str) -> list[float]:
    """Relative errors by line, by closed form, and by the larger of the two."""
    line, shape = row["line"][pair], row["closed form"][pair]
    whole = row["measured"][str(DEPTHS[-1])]
    return [found / whole - 1 for found in (line, shape, max(line, shape))]


if __name__ == "__main__":
    sys.exit(main())
