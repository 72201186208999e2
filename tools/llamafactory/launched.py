"""What becomes of FP8 in LLaMA-Factory where `accelerate launch` has a launch file.

``PYTHON -m tools.llamafactory.launched`` needs what ``judge.py`` needs. It prints
a table: launch files by LLaMA-Factory's settings, each with the number of FP8 linears
of a tiny Llama, or with what the run ends.

The launcher's environment is that of Accelerate's own code for 8 GPUs, LLaMA-Factory
parses the file, and the trainer of the stage prepares the model, in one process on the
CPU. Of Transformer Engine there is a stand-in; its linears count where a forward pass
enters the FP8 autocast.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.accelerate.judge import _launched, _one_gpu, _said, _with_te
from tools.llamafactory import judge, te_stand_in

FSDP = "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: {}\n"
FSDP += "  fsdp_cpu_ram_efficient_loading: false\n"
KINDS = {
    "DDP": "distributed_type: MULTI_GPU\n",
    "FSDP2": FSDP.format(2),
}
PRECISIONS = {
    "bf16": "mixed_precision: bf16\n",
    "fp8": "mixed_precision: fp8\n",
    "fp8 AO": "mixed_precision: fp8\nfp8_config: {backend: AO}\n",
    "fp8 TE": "mixed_precision: fp8\nfp8_config: {backend: TE, fp8_format: E4M3}\n",
}
SETTINGS = {
    "bf16": "bf16: true\n",
    "neither": "",
    "pure_bf16": "pure_bf16: true\n",
    "fp8, bf16": "fp8: true\nbf16: true\n",
    "fp8": "fp8: true\n",
    "fp8 by te, bf16": "fp8: true\nfp8_backend: te\nbf16: true\n",
}
BASE = """\
model_name_or_path: m
stage: sft
do_train: true
finetuning_type: full
dataset: d
template: default
output_dir: out
report_to: none
"""


def main() -> int:
    """Judge every pair of files; print a table for each kind of launch."""
    table = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the trainer prints is no verdict
    package = tempfile.TemporaryDirectory()
    te_stand_in.install(package.name)
    judge._pretend()
    packages = ("llamafactory", "transformers", "accelerate", "torch", "torchao")
    version = import_module("importlib.metadata").version
    print(", ".join(f"{name} {version(name)}" for name in packages), file=table)
    for name in ("accelerate.commands.launch", "torchao.float8", "transformers"):
        import_module(name)
    context = multiprocessing.get_context("fork")
    for kind, launch in KINDS.items():
        print(f"\n{kind}: launch file | {' | '.join(SETTINGS)}", file=table)
        for precision, asked in PRECISIONS.items():
            row = []
            for setting in SETTINGS.values():
                here, there = context.Pipe(False)
                text = launch + asked + "num_processes: 8\n"
                one = context.Process(target=_judge, args=(text, setting, there))
                one.start()
                there.close()
                row.append(here.recv() if here.poll(90) else "timeout")
                one.kill()
            print(f"{precision} | {' | '.join(row)}", file=table, flush=True)
    return 0


def _judge(launch: str, setting: str, pipe: Any) -> None:
    """Send the number of FP8 linears, or the error."""
    sys.stdout = sys.stderr = io.StringIO()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            Path("train.yaml").write_text(BASE + setting, encoding="utf-8")
            pipe.send(str(_linears(launch)))
    except BaseException as error:
        pipe.send(_said(error)[:110])


def _linears(launch: str) -> int:
    """Return how many linears compute in FP8 when training would begin."""
    os.environ.update(_launched(launch))
    os.environ["DISABLE_VERSION_CHECK"] = "1"
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        _one_gpu()
    sys.argv = ["train.py", "train.yaml"]
    parser = import_module("llamafactory.hparams.parser")
    _, _, training, tuning, _ = parser.get_train_args(parser.read_args())
    torch, transformers = import_module("torch"), import_module("transformers")
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    shape = transformers.LlamaConfig(vocab_size=128, num_attention_heads=4, **sizes)
    model = transformers.LlamaForCausalLM(shape)
    trainer = judge._trainer(model, training, tuning)
    optimizer = torch.optim.SGD(model.parameters())
    prepared, _ = trainer.accelerator.prepare(model, optimizer)
    kinds = [type(module).__module__ for module in prepared.modules()]
    if any(kind.startswith("transformer_engine") for kind in kinds):
        return int(_with_te(torch, prepared)["linears"])
    return sum(map(judge._in_fp8, prepared.modules()))


if __name__ == "__main__":
    sys.exit(main())
