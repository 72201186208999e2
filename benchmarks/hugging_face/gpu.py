"""Memory and speed of transformers' Trainer on a GPU, in bf16 and in FP8.

``python -m benchmarks.hugging_face.gpu PYTHON`` needs one Hopper GPU, and a Python with
torch, torchao, transformers and accelerate. Models of real sizes, with random weights,
train for ``STEPS`` steps each in bf16 and with Accelerate's FP8 by torchao, compiled
and with full activation checkpointing (``step.py``). The peak by PyTorch's own count is
compared with that of ``fp8tune estimate``, and the gain in tokens/s with the predicted
one. ``--gpu h200`` names another GPU than an H100, ``--output FILE`` keeps each
run when it ends. A model takes some minutes.

Nothing is downloaded: the sizes are those of ``fp8tune/trainers/models.toml``.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.hugging_face.memory import error, estimated, measured
from benchmarks.memory_errors import Case
from benchmarks.rows import Rows, end_by_sigterm
from fp8tune.trainers.local_model import published

MODELS = ("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-3B")
STEPS = 30
LENGTH = 8192
NAMES = {
    "dim": "hidden_size",
    "ffn": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab": "vocab_size",
    "tied": "tie_word_embeddings",
}
"""What a config of transformers calls the sizes of ``models.toml``."""


def cases() -> Iterator[Case]:
    """Yield each model in bf16 and in FP8, one rank with weights in bf16."""
    for model in MODELS:
        known = published(model) or {}
        sizes = {theirs: known[ours] for ours, theirs in NAMES.items()}
        case: Case = {
            "device": "cuda",
            "name": model,
            "family": known["family"],
            "sizes": sizes | {"max_position_embeddings": LENGTH},
            "mode": "ddp",
            "weights": "bfloat16",
            "ranks": 1,
            "batch": 1,
            "length": LENGTH,
            "accumulated": 1,
            "ac": True,
            "compile": True,
            "steps": STEPS,
            "optimizer": "adamw_torch_fused",
        }
        yield case
        yield case | {"precision": "fp8"}


SEEN = """
import torch
from importlib.metadata import version
if torch.cuda.is_available():
    print(torch.cuda.get_device_name(), version("torch"), version("torchao"), sep="\\n")
"""


def seen(python: str) -> dict[str, str]:
    """Return the GPU and the versions of a Python's PyTorch; empty without a GPU."""
    done = subprocess.run(  # noqa: S603
        [python, "-c", SEEN], capture_output=True, text=True, check=True
    )
    names = ("gpu", "torch", "torchao")
    return dict(zip(names, done.stdout.splitlines(), strict=False))


HEAD = """\
| model | bf16 [tokens/s] | FP8 | gain | predicted | bf16 [GiB] | error | FP8 | error |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def table(found: list[Case], gpu: str) -> str:
    """The figures by model, as a Markdown table."""
    rows = [HEAD]
    for pair in zip(found[::2], found[1::2], strict=True):
        bf16, fp8 = pair
        if "failed" in bf16 or "failed" in fp8:
            continue
        slow, fast = (case["tokens_per_second"] for case in pair)
        gain = estimated(fp8, gpu)["fp8_gain"]
        peaks = " | ".join(
            f"{max(case['peaks'].values()) / 2**30:.2f} | {error(case):+.1%}"
            for case in pair
        )
        expected = "unknown" if gain is None else f"{gain:.2f}"
        rows.append(
            f"| {bf16['name']} | {slow:,.0f} | {fast:,.0f} | {fast / slow:.2f} | "
            f"{expected} | {peaks} |"
        )
    return "\n".join(rows)


def _measured(python: str, case: Case) -> Case:
    return measured(python, [case])[0]


def main(arguments: list[str] | None = None) -> int:
    """Measure on a GPU, compare, and print the table."""
    parser = argparse.ArgumentParser(prog="hugging_face.gpu", description=__doc__)
    parser.add_argument("python", help="a Python that has the trainer")
    parser.add_argument("--gpu", default="h100", help="which GPU it is")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument(
        "--output",
        type=Path,
        help="add each run to this file (JSON lines); go on where it was cut off",
    )
    options = parser.parse_args(arguments)
    there = seen(options.python)
    if not there:
        parser.error(
            f"PyTorch in {options.python} sees no GPU: nothing is measured. Memory on "
            "the CPU is measured by: python -m benchmarks.hugging_face.memory PYTHON"
        )
    end_by_sigterm()
    rows = Rows(options.output, machine.describe() | there)
    found = [
        rows.run(
            f"{case['name']}, {case.get('precision', 'bf16')}",
            partial(_measured, options.python, case),
        )
        for case in cases()
        if options.only in case["name"]
    ]
    print(table(found, options.gpu))
    print(f"failed: {', '.join(rows.failed) or 'nothing'}")
    return int(bool(rows.failed))


if __name__ == "__main__":
    raise SystemExit(main())
