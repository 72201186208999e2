"""Whether a model with torchao's FP8 all-gather can be saved by transformers' Trainer.

``TRAINER_PYTHON -m torch.distributed.run --nproc_per_node 2 -m
tools.accelerate.saving KIND`` with the kind ``DDP``, ``FULL_STATE_DICT`` or
``SHARDED_STATE_DICT`` (the last two with FSDP2) sets up a small Llama as the launcher
does, and saves it as the first checkpoint does, on CPUs that pass for GPUs. Nothing is
trained: gloo cannot gather numbers in FP8, but saving gathers none.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from importlib import import_module
from typing import Any

FP8 = {
    "ACCELERATE_MIXED_PRECISION": "fp8",
    "ACCELERATE_FP8_BACKEND": "AO",
    "ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER": "true",
}
FSDP2 = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "LlamaDecoderLayer",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
}
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
}


class _Reached(Exception):
    """Training would begin."""


def main(kind: str) -> None:
    """Save, and print how it went on this rank."""
    warnings.simplefilter("ignore")
    sharded = FSDP2 | {"FSDP_STATE_DICT_TYPE": kind}
    os.environ.update(FP8 | (sharded if kind != "DDP" else {}))
    torch, transformers = import_module("torch"), import_module("transformers")
    _as_gpus(torch)

    def stop(*_: Any, **__: Any) -> None:
        raise _Reached

    callback = type("Stop", (transformers.TrainerCallback,), {"on_train_begin": stop})
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    rows = [{"input_ids": torch.arange(16), "labels": torch.arange(16)}] * 8
    with tempfile.TemporaryDirectory() as folder:
        options = {"report_to": "none", "max_steps": 1, "use_cpu": True}
        arguments = transformers.TrainingArguments(folder, **options)
        given = {"train_dataset": rows, "callbacks": [callback()]}
        trainer = transformers.Trainer(model, arguments, **given)
        with contextlib.suppress(_Reached):
            trainer.train()
        rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
        kinds = {type(p.data).__name__ for p in trainer.model_wrapped.parameters()}
        try:
            trainer._save_checkpoint(trainer.model_wrapped, None)
            said = "saved"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"[:120]
        print(f"{kind}, rank {rank} of {size}, {sorted(kinds)}: {said}", flush=True)
    os._exit(0)  # another rank may wait for one that failed


def _as_gpus(torch: Any) -> None:
    """Let CPUs pass for GPUs."""
    state = import_module("accelerate.state")
    gpus = import_module("accelerate.utils").DistributedType.MULTI_GPU
    torch.distributed.init_process_group("gloo")

    def device(self: Any) -> None:
        self.device = torch.device("cpu")

    state.PartialState._prepare_backend = lambda *_, **__: ("gloo", gpus)
    state.PartialState.set_device = device
    ddp = torch.nn.parallel.DistributedDataParallel
    begin = ddp.__init__

    def on_cpu(self: Any, module: Any, *_: Any, **__: Any) -> None:
        begin(self, module)

    ddp.__init__ = on_cpu


if __name__ == "__main__":
    main(sys.argv[1])
