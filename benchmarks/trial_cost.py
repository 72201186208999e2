"""What a trial costs before its steps: imports, building, and stages of torch.compile.

Each trial is a process, as in a search, and trials share torch's cache in an empty
folder. ``first`` compiles a setting, ``again`` repeats it, ``no AOT cache`` repeats it
with the AOTAutograd cache off, which is what a trial in FP8 cost until it was
reused (``fp8tune/runners/builtin/compile_cache.py``). ``other batch`` and ``other AC``
change one thing. ``compile`` is the first forward and backward pass, with the stages of
torch.compile, whose times are torch's own (``torch._dynamo.utils``). Kernels of a
shallower model serve a deeper one too, so only ``dynamo`` and ``aot`` of the ``first``
trials compare between layers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.paths import RESULTS, ROOT
from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.builtin.spec import Spec, from_json
from fp8tune.trainers.trainer import trainer

NO_AOT_CACHE = {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
RUNS: dict[str, dict[str, Any]] = {
    "first": {},
    "again": {},
    "no AOT cache": {},
    "other batch": {"train.batch_size": 2},
    "other AC": {"train.activation_checkpointing": "none"},
}
COLUMNS = (
    "import_s",
    "build_s",
    "dynamo_s",
    "aot_s",
    "inductor_s",
    "compile_s",
    "step_s",
)


class Case(NamedTuple):
    """One trial: precision, layers, simulated FSDP ranks, and which run it is."""

    precision: str
    layers: int
    ranks: int
    run: str

    @property
    def name(self) -> str:
        """The words that tell it from the others."""
        fsdp = f", rank 0 of {self.ranks}" if self.ranks > 1 else ""
        return f"{self.precision}, {self.layers} layers{fsdp}, {self.run}"

    def spec(self, device: str, width: int) -> Spec:
        """Return what its process builds."""
        config: dict[str, Any] = {
            "model": {
                "dim": width,
                "n_layers": self.layers,
                "n_heads": 4,
                "n_kv_heads": 4,
                "vocab_size": 512,
                "max_seq_len": 128,
            },
            "train": {
                "batch_size": 1,
                "seq_len": 128,
                "compile_model": True,
                "mixed_precision": self.precision,
                "activation_checkpointing": "full",
            },
            "distributed": {"dp_shard": -1},
        }
        kempnerforge = trainer("kempnerforge")
        setup = Setup(device, dp_shard=self.ranks)
        loaded = kempnerforge.load(config)
        builtin = Builtin(kempnerforge, loaded, Target("", self.ranks), setup)
        return builtin.spec(RUNS[self.run])


def main(arguments: list[str] | None = None) -> int:
    """Run every case, and write each when it is measured."""
    parser = argparse.ArgumentParser(prog="benchmarks.trial_cost", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--width", type=int, default=128, help="hidden size")
    parser.add_argument("--output", type=Path, default=RESULTS / "trial_cost.json")
    options = parser.parse_args(arguments)
    data: dict[str, Any] = {
        "environment": {
            **machine.describe("torch", "torchao"),
            "device": options.device,
            "hidden size": str(options.width),
            "load average at the start": f"{os.getloadavg()[0]:.1f}",
        },
        "cases": {},
    }
    with tempfile.TemporaryDirectory() as cache:
        for case in cases(options.layers):
            spec = case.spec(options.device, options.width)
            data["cases"][case.name] = measured(case, spec, cache)
            options.output.write_text(f"{json.dumps(data, indent=1)}\n")
            options.output.with_suffix(".md").write_text(page(data))
            print(case.name, data["cases"][case.name], file=sys.stderr, flush=True)
    return 0


def cases(layers: list[int]) -> Iterator[Case]:
    """Yield the trials in their order: a setting is compiled before it is repeated."""
    fewest, most = layers[0], layers[-1]
    for run in RUNS:
        yield Case("fp8", fewest, 1, run)
    for run in ("first", "again"):
        yield Case("fp8", most, 16, run)
    for count in layers:
        for run in ("first", "again", "no AOT cache"):
            if count != fewest:
                yield Case("fp8", count, 1, run)
        for run in ("first", "again"):
            yield Case("bf16", count, 1, run)


def measured(case: Case, spec: Spec, cache: str) -> dict[str, Any]:
    """Run a trial in its own process; return its times, or what failed."""
    off = NO_AOT_CACHE if case.run == "no AOT cache" else {}
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, **off}
    start = time.time()
    command = [
        sys.executable,
        "-c",
        "from benchmarks.trial_cost import child; child()",
    ]
    ran = subprocess.run(  # noqa: S603
        [*command, json.dumps(spec._asdict()), str(start)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        return {"failed": ran.stderr.strip()[-500:]}
    times: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return times


def child() -> None:
    """Print the times of a trial that runs in this process [s]."""
    spec, start = from_json(json.loads(sys.argv[1])), float(sys.argv[2])
    from fp8tune.runners.builtin.convert import build
    from fp8tune.runners.builtin.data import batches
    from fp8tune.runners.builtin.measure import Device
    from fp8tune.runners.builtin.step import Training

    device = Device(spec.device)
    at = [start, time.time()]
    model, _ = build(spec)
    training = Training(model, spec, batches(spec))
    device.wait()
    at.append(time.time())
    training.try_micro_batch()
    device.wait()
    at.append(time.time())
    training.step()  # the optimizer's first step
    training.step()
    device.wait()
    at.append(time.time())
    imports, builds, compiles, steps = (
        after - before for before, after in itertools.pairwise(at)
    )
    times = {"import_s": imports, "build_s": builds, "compile_s": compiles}
    times |= {"step_s": steps / 2, **_stages()}
    rounded = {name: round(seconds, 2) for name, seconds in times.items()}
    print(json.dumps({**rounded, **_cache()}), flush=True)
    os._exit(0)  # a fake process group may hang at exit


def _stages() -> dict[str, float]:
    """Return the times of torch.compile's stages; the stages of a hit are short."""
    from torch._dynamo.utils import compilation_time_metrics

    spent = {name: sum(times) for name, times in compilation_time_metrics.items()}
    whole = spent.get("_compile.compile_inner", 0.0)
    backend = spent.get("OutputGraph.call_user_compiler", 0.0)
    inductor = spent.get("compile_fx_inner", 0.0)
    late = spent.get("backward._backward_impl", 0.0)
    aot = max(0.0, backend + late - inductor)
    return {"dynamo_s": whole - backend, "aot_s": aot, "inductor_s": inductor}


def _cache() -> dict[str, int]:
    """Return how many graphs AOTAutograd's cache had, had not, and skipped."""
    from torch._dynamo.utils import counters

    counted = counters["aot_autograd"]
    kinds = ("hit", "miss", "bypass")
    return {kind: counted[f"autograd_cache_{kind}"] for kind in kinds}


def page(data: dict[str, Any]) -> str:
    """Return the results as a page."""
    about = "\n".join(
        f"- {name}: {value}" for name, value in data["environment"].items()
    )
    rows = [
        (
            name,
            *(f"{case[column]:.1f}" for column in COLUMNS),
            f"{case['hit']} / {case['miss']} / {case['bypass']}",
        )
        for name, case in data["cases"].items()
        if "failed" not in case
    ]
    columns = (column.removesuffix("_s") for column in COLUMNS)
    head = ("trial", *columns, "hit / miss / bypass")
    failed = "".join(
        f"\n- failed: {name}: {case['failed'].splitlines()[-1]}"
        for name, case in data["cases"].items()
        if "failed" in case
    )
    description = (__doc__ or "").strip()
    table = machine.table(rows, head) if rows else ""
    parts = ("# What a trial costs", description, about + failed, "Seconds:", table)
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
