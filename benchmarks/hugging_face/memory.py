"""How far fp8tune's memory of Hugging Face's trainers is from the real Trainer's.

``python -m benchmarks.hugging_face.memory PYTHON`` needs a Python with torch,
transformers, accelerate and deepspeed. Each recorded case trains a small model of a
family's real architecture for two steps in that Python (``step.py``: the real Trainer
and Accelerate, one process for each rank, gloo), which gives the most bytes that were
alive on rank 0. fp8tune estimates the same run from a launch file, training arguments
and the ``config.json`` of the model. Without PYTHON the recorded peaks are compared.

A CPU does not show the workspaces of kernels, nor what NCCL and the CUDA context take;
the estimate names the last two apart.
"""

from __future__ import annotations

import json
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.memory_errors import Case, Recorded, spread
from fp8tune.config.reader import read_config
from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer

EXPERTS = ("qwen3_moe", "mixtral", "qwen2_moe")
"""Families of mixtures of experts."""
BUCKET = 1_000_000
"""Numbers in ZeRO's buffer for gradients; its default has more than these models."""
NEWEST = "1.15.0"
KINDS = {"fsdp1": ("FSDP", 1), "fsdp2": ("FSDP", 2)}
KINDS |= {f"zero{stage}": ("DEEPSPEED", 0) for stage in (1, 2, 3)}


def estimated(case: Case) -> dict[str, Any]:
    """The peak that fp8tune estimates, its range, and the peak's moment [bytes]."""
    kind, version = KINDS.get(case["mode"], ("MULTI_GPU", 0))
    if case["ranks"] == 1 and not version:
        kind = "NO"
    deepspeed = f"""deepspeed:
  zero_optimization:
    stage: {case["mode"][-1]}
    reduce_bucket_size: {BUCKET}
    overlap_comm: false
"""
    fsdp = f"""fsdp_config:
  fsdp_version: {version}
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
"""
    launch = f"""distributed_type: '{kind}'
mixed_precision: {case.get("precision", "bf16")}
num_processes: {case["ranks"]}
fp8_config:
  backend: AO
  enable_fsdp_float8_all_gather: false
{fsdp if version else deepspeed if kind == "DEEPSPEED" else ""}"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = case["sizes"] | {"model_type": case["family"]}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        training = f"""model_name_or_path: {folder}
dtype: {case["weights"]}
bf16: {str("precision" not in case).lower()}
per_device_train_batch_size: {case["batch"]}
gradient_accumulation_steps: {case["accumulated"]}
gradient_checkpointing: {str(case["ac"]).lower()}
max_seq_length: {case["length"]}
optim: {case["optimizer"]}
"""
        (folder / "training.yaml").write_text(training, encoding="utf-8")
        release = case.get("accelerate", NEWEST)
        head = f"# fp8tune: with=training.yaml trainer=accelerate=={release}\n"
        (folder / "launch.yaml").write_text(head + launch, encoding="utf-8")
        job = read_config(str(folder / "launch.yaml"), Target("", case["ranks"])).job
        names = ("peak_gib", "low_gib", "high_gib")
        found = {name: job[f"memory.{name}"] * 2**30 for name in names}
        found["at"] = job["memory.peak_at"]
        return found


MEASURED = Recorded(
    "hf_memory",
    "benchmarks.hugging_face.step",
    "accelerate",
    estimated,
    """# Memory of Hugging Face's trainers

Two steps of transformers' Trainer on the CPU against the estimate, written by
`python -m benchmarks.hugging_face.memory`: small models of the families' architectures,
all ranks real (gloo), live bytes at the peak. The error is that of the estimate: 2 %
means that it is 2 % too high.""",
)

PUBLISHED = """
distributed_type: FSDP
fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}
mixed_precision: bf16
training:
  model_name_or_path: Qwen/Qwen2.5-1.5B-Instruct
  bf16: true
  per_device_train_batch_size: 2
  gradient_checkpointing: false
  max_seq_length: 128
  optim: adamw_torch
"""
"""Accelerate's ``benchmarks/fsdp2`` at 16cb6eb8, a run on 8 H100 with release 1.8."""

PUBLISHED_GIB = 4350 / 1024
"""The largest sample of allocated memory in its plot, read to 50 MB."""

PLOT = "https://github.com/huggingface/accelerate/tree/16cb6eb8/benchmarks/fsdp2"


def predicted() -> float:
    """The peak that fp8tune estimates for the published run [GiB]."""
    known = trainer("accelerate==1.8.1")
    loaded = known.load(parse(PUBLISHED.encode(), "x.yaml").values)
    return float(known.job(loaded, Target("h100", 8))["memory.peak_gib"])


def summary() -> str:
    """What ``docs/accuracy.md`` says of these trainers."""
    found, error = MEASURED.cases(), MEASURED.error
    kinds = {"DDP and one rank": "ddp", "FSDP": "fsdp", "ZeRO": "zero"}
    models = {"dense": False, "mixture of experts": True}
    rows = []
    for (model, experts), (name, prefix) in product(models.items(), kinds.items()):
        mine = (c for c in found if (c["family"] in EXPERTS) == experts)
        if errors := [error(c) for c in mine if c["mode"].startswith(prefix)]:
            rows.append(spread(f"{model} | {name}", errors))
    rows_text = "\n".join(rows)
    return f"""{SUMMARY}

| model | weights | runs | median error | lowest | highest |
| --- | --- | ---: | ---: | ---: | ---: |
{rows_text}

The only published peak that we found with its settings is [Accelerate's own with
FSDP2]({PLOT})
on 8 H100: its plot shows {PUBLISHED_GIB:.2f} GiB, {predicted():.2f} are predicted."""


SUMMARY = """\
Accelerate, Axolotl and LLaMA-Factory train with transformers' Trainer. Its live memory
was measured on the CPU, with small models of the real architectures on up to 4 ranks
([by family and mode](../benchmarks/results/hf_memory.md)). The ranges of the estimates
are wider than these errors, because a CPU does not show the workspaces of kernels.
Experts are those of transformers 5, in PyTorch's grouped product, which by its code
keeps the same tensors on a CPU and on a GPU."""


if __name__ == "__main__":
    raise SystemExit(MEASURED.main(__doc__, None))
