"""How far fp8tune's memory of Hugging Face's trainers is from the real Trainer's.

``python -m benchmarks.hugging_face.memory PYTHON`` needs a Python with torch,
transformers, accelerate and deepspeed. Each case of ``cases`` trains a small model of
a family's real architecture for two steps in that Python (``step.py``: the real Trainer
and Accelerate, one process for each rank, gloo), which gives the most bytes that were
alive on rank 0. ``--measured FILE`` takes what was measured before, to which another
Python may add other releases (``--only FSDP2``). fp8tune estimates the same run from a
launch file, training arguments and the ``config.json`` of the model. ``--output
FOLDER`` keeps both as ``hf_memory.json``, and the errors by family and mode as
``hf_memory.md``.

A CPU does not show the workspaces of kernels, nor what NCCL and the CUDA context take;
the estimate names the last two apart.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import memory_errors
from benchmarks.memory_errors import Case, keep, printed, spread
from benchmarks.paths import ROOT
from fp8tune.config.reader import read_config
from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer

SIZES = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 4096,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
TYPED = {"batch": 2, "length": 128, "accumulated": 1, "ac": True, "ranks": 1}
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
EXPERTS: dict[str, Case] = {
    "qwen3_moe": {
        "num_experts": 32,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 96,
        "norm_topk_prob": True,
    },
    "mixtral": {
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "intermediate_size": 704,
    },
    "qwen2_moe": {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 176,
        "shared_expert_intermediate_size": 704,
    },
}
"""Families of mixtures of experts, and what their configs have more."""

MODES: dict[str, Case] = {
    "one rank, fp32 weights": {"mode": "ddp", "weights": "float32"},
    "one rank, bf16 weights": {"mode": "ddp", "weights": "bfloat16"},
    "DDP, 2 ranks": {"mode": "ddp", "weights": "float32", "ranks": 2},
    "FSDP1, 2 ranks": {"mode": "fsdp1", "weights": "bfloat16", "ranks": 2},
    "FSDP2, 2 ranks": {"mode": "fsdp2", "weights": "bfloat16", "ranks": 2},
    "FSDP2, 4 ranks": {"mode": "fsdp2", "weights": "bfloat16", "ranks": 4},
}
"""What each family is trained with."""

ZERO: dict[str, Case] = {
    f"ZeRO {stage}": {"mode": f"zero{stage}", "weights": "bfloat16", "ranks": 2}
    for stage in (1, 2, 3)
}
BUCKET = 1_000_000
"""Numbers in ZeRO's buffer for gradients; its default has more than these models."""

FP8: dict[str, Case] = {
    "FP8 (torchao, eager), one rank": MODES["one rank, bf16 weights"],
    "FP8 (torchao, eager), FSDP2": MODES["FSDP2, 2 ranks"],
}
"""With Accelerate's FP8, whose casts are separate operators without compile."""

DEEP: Case = {"num_hidden_layers": 8, "vocab_size": 1024}
SHAPES: dict[str, Case] = {
    "": {},
    "no AC": {"ac": False, "sizes": DEEP, "batch": 4},
    "many tokens": {"sizes": DEEP, "batch": 16, "length": 256},
    "few tokens": {"batch": 1, "length": 32},
    "accumulated": {"accumulated": 2},
    "wide vocabulary": {"sizes": {"vocab_size": 16384}, "batch": 1, "length": 64},
}
"""What the Llama is trained with in every mode; the other families in the first two."""

EXPERT_CASES: dict[tuple[str, str], tuple[str, ...]] = {
    ("qwen3_moe", "one rank, fp32 weights"): (
        "",
        "no AC",
        "many tokens",
        "accumulated",
    ),
    ("qwen3_moe", "one rank, bf16 weights"): ("", "no AC"),
    ("qwen3_moe", "DDP, 2 ranks"): ("",),
    ("qwen3_moe", "FSDP1, 2 ranks"): ("", "no AC", "many tokens"),
    ("qwen3_moe", "FSDP2, 2 ranks"): ("", "no AC", "many tokens", "accumulated"),
    ("qwen3_moe", "FSDP2, 4 ranks"): ("", "many tokens"),
    ("qwen3_moe", "ZeRO 1"): ("", "accumulated"),
    ("qwen3_moe", "ZeRO 2"): ("", "many tokens"),
    ("qwen3_moe", "ZeRO 3"): ("", "no AC", "many tokens"),
    ("qwen3_moe", "FP8 (torchao, eager), one rank"): ("no AC",),
    ("mixtral", "one rank, fp32 weights"): ("many tokens",),
    ("mixtral", "one rank, bf16 weights"): ("no AC", "many tokens"),
    ("mixtral", "FSDP2, 2 ranks"): ("",),
    ("qwen2_moe", "one rank, fp32 weights"): ("",),
    ("qwen2_moe", "FSDP2, 2 ranks"): ("no AC",),
}
"""Shapes by family with experts and mode."""


def cases() -> Iterator[Case]:
    """Yield the cases."""
    for family in FAMILIES:
        for mode, given in MODES.items():
            for name, shape in SHAPES.items():
                if family == "llama" or name in ("", "no AC"):
                    yield _case(family, mode, name, given | shape)
    for mode, given in ZERO.items():
        for name in ("", "no AC", "many tokens", "accumulated"):
            yield _case("llama", mode, name, given | SHAPES[name])
        yield _case("llama", mode, "4 ranks", given | {"ranks": 4})
    for mode, given in FP8.items():
        for name in ("", "no AC", "many tokens"):
            fp8 = {"precision": "fp8"} | given | SHAPES[name]
            yield _case("llama", mode, name, fp8)
    yield from expert_cases()
    tied = {"sizes": {"tie_word_embeddings": True}}
    for family in ("llama", "qwen3"):
        given = MODES["FSDP2, 2 ranks"] | tied
        yield _case(family, "FSDP2, 2 ranks", "tied embeddings", given)


def expert_cases() -> Iterator[Case]:
    """Yield the cases of mixtures of experts."""
    fp8 = {mode: {"precision": "fp8"} | given for mode, given in FP8.items()}
    every = MODES | ZERO | fp8
    for (family, mode), names in EXPERT_CASES.items():
        for name in names:
            sizes = EXPERTS[family] | SHAPES[name].get("sizes", {})
            given = every[mode] | SHAPES[name] | {"sizes": sizes}
            yield _case(family, mode, name, given)


def _case(family: str, mode: str, name: str, given: Case) -> Case:
    sizes = SIZES | given.get("sizes", {})
    fixed: Case = {"family": family, "optimizer": "adamw_torch_fused", "name": name}
    if given["mode"].startswith("zero"):
        fixed["bucket"] = BUCKET
    return TYPED | given | fixed | {"sizes": sizes, "of": mode}


def measured(python: str, drawn: Iterable[Case]) -> list[Case]:
    """Return the cases with their peaks, by the real Trainer."""
    command = [python, "-m", "benchmarks.hugging_face.step"]
    return memory_errors.measured(command, drawn)


NEWEST = "1.15.0"
KINDS = {"fsdp1": ("FSDP", 1), "fsdp2": ("FSDP", 2)}
KINDS |= {case["mode"]: ("DEEPSPEED", 0) for case in ZERO.values()}


def estimated(case: Case, gpu: str = "") -> dict[str, Any]:
    """The peak that fp8tune estimates, its range, and the peak's moment [bytes].

    With a GPU also FP8's gain in speed [ratio], ``None`` where it is unknown.
    """
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
torch_compile: {str(case.get("compile", False)).lower()}
optim: {case["optimizer"]}
"""
        (folder / "training.yaml").write_text(training, encoding="utf-8")
        release = case.get("accelerate", NEWEST)
        head = f"# fp8tune: with=training.yaml trainer=accelerate=={release}\n"
        (folder / "launch.yaml").write_text(head + launch, encoding="utf-8")
        job = read_config(str(folder / "launch.yaml"), Target(gpu, case["ranks"])).job
        names = ("peak_gib", "low_gib", "high_gib")
        found = {name: job[f"memory.{name}"] * 2**30 for name in names}
        found["at"] = job["memory.peak_at"]
        return found | ({"fp8_gain": job.find("speed.fp8_gain")} if gpu else {})


def error(case: Case) -> float:
    """How far the estimate is above the measured peak [ratio]."""
    return memory_errors.error(case, estimated)


HEAD = """# Memory of Hugging Face's trainers

Two steps of transformers' Trainer on the CPU against the estimate, written by
`python -m benchmarks.hugging_face.memory`: small models of the families' architectures,
all ranks real (gloo), live bytes at the peak. The error is that of the estimate: 2 %
means that it is 2 % too high.

| family | mode | Accelerate | runs | error, median | from | to |
| --- | --- | --- | ---: | ---: | ---: | ---: |"""


def table(found: list[Case]) -> str:
    """The errors by family and mode, as a page."""
    rows = [HEAD]
    for family in (*FAMILIES, *EXPERTS):
        mine = [case for case in found if case["family"] == family]
        releases = sorted({case["accelerate"] for case in mine}, reverse=True)
        for mode, release in product((*MODES, *ZERO, *FP8), releases):
            errors = [
                error(case)
                for case in mine
                if (case["of"], case["accelerate"]) == (mode, release)
            ]
            if errors:
                rows.append(spread(f"{family} | {mode} | {release}", errors))
    return "\n".join(rows) + "\n"


RECORDED = ROOT / "benchmarks" / "results" / "hf_memory.json"

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
    found = json.loads(RECORDED.read_text(encoding="utf-8"))
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


def main(arguments: list[str] | None = None) -> int:
    """Measure, compare, and print the errors."""
    parser = argparse.ArgumentParser(prog="hugging_face.memory", description=__doc__)
    parser.add_argument("python", nargs="?", help="a Python that has the trainer")
    parser.add_argument("--only", default="", help="modes whose name contains this")
    parser.add_argument("--measured", type=Path, help="what was measured before")
    parser.add_argument("--output", type=Path, help="where to keep the figures")
    options = parser.parse_args(arguments)
    if not options.python and not options.measured:
        parser.error("give PYTHON, or --measured")
    found: list[Case] = []
    if options.measured:
        found += json.loads(options.measured.read_text(encoding="utf-8"))
    if options.python:
        drawn = (case for case in cases() if options.only in case["of"])
        found += measured(options.python, drawn)
    for case in found:
        print(printed(case, estimated))
    print(table(found))
    if options.output:
        keep(options.output, "hf_memory", found, table(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
