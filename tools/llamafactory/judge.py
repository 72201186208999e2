"""What LLaMA-Factory itself does with configs, one JSON line each.

``TRAINER_PYTHON -m tools.llamafactory.judge < configs.jsonl`` needs a Python with
LLaMA-Factory, transformers, accelerate and torchao. An input line holds ``yaml``. The
output adds ``error``, the beginning of what ends the run before it trains (``""`` if it
starts), and ``fp8``, the number of FP8 linears after the trainer's own set-up
of a tiny Llama (``null`` if it is refused, or the stage's trainer needs more than a
model).

The text goes through ``read_args`` and ``get_train_args``, as ``llamafactory-cli train
FILE`` does. Then the stage's trainer is built and Accelerate prepares the model. A GPU
with bf16 is taken to be there; models, data and adapters are not looked up. Optional
packages of features are taken to be installed; Transformer Engine is a stand-in.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.llamafactory import te_stand_in

BEFORE = dict(os.environ)
"""The environment that each config starts with."""


def main() -> int:
    """Judge the configs on standard input."""
    verdicts = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the trainer prints is no verdict
    package = tempfile.TemporaryDirectory()
    te_stand_in.install(package.name)
    _pretend()
    release = import_module("transformers").__version__
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        for line in sys.stdin:
            config = json.loads(line)
            path.write_text(config["yaml"], encoding="utf-8")
            error, fp8 = _judge(str(path), folder)
            verdict = {"error": error, "fp8": fp8, "transformers": release}
            print(json.dumps(config | verdict), file=verdicts)
            verdicts.flush()
    return 0


def _judge(path: str, folder: str) -> tuple[str, int | None]:
    parser = import_module("llamafactory.hparams.parser")
    os.environ.clear()
    os.environ.update(BEFORE)
    sys.argv = ["llamafactory-cli", path]
    os.chdir(folder)
    try:
        arguments = parser.read_args()
        parsed = parser.get_train_args(arguments)
    except (Exception, SystemExit) as error:  # whatever ends the run
        return " ".join(f"{type(error).__name__}: {error}".split())[:300], None
    try:
        return "", _fp8_modules(*parsed)
    except (Exception, SystemExit) as error:
        return " ".join(f"set-up {type(error).__name__}: {error}".split())[:300], None


def _fp8_modules(
    _model: Any, _data: Any, training: Any, tuning: Any, _generating: Any
) -> int | None:
    """Return how many linears of a tiny model the trainer's set-up converts."""
    transformers = import_module("transformers")
    import_module("accelerate.state").AcceleratorState._reset_state()
    accelerator = import_module("accelerate").Accelerator
    original = accelerator.__init__
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    shape = transformers.LlamaConfig(vocab_size=128, num_attention_heads=4, **sizes)
    model = transformers.LlamaForCausalLM(shape)
    try:
        trainer = _trainer(model, training, tuning)
        if trainer is None:
            return None
        optimizer = import_module("torch").optim.SGD(model.parameters())
        prepared, _ = trainer.accelerator.prepare(model, optimizer)
    finally:  # LLaMA-Factory changes the class for Transformer Engine
        accelerator.__init__ = original
        accelerator._te_fp8_patched = False
    return sum(map(_in_fp8, prepared.modules()))


def _in_fp8(module: Any) -> bool:
    """Whether a module is a linear of torchao or of Transformer Engine."""
    kind = type(module)
    ours = (
        kind.__module__.startswith("transformer_engine") and kind.__name__ == "Linear"
    )
    return ours or kind.__name__ == "Float8Linear"


def _trainer(model: Any, training: Any, tuning: Any) -> Any:
    """Return the trainer of the stage; ``None`` for those that need more than a model.

    It is built as in ``train/*/workflow.py``, which hands it no arguments of the model.
    """
    shared = {"model": model, "args": training, "tokenizer": None, "processor": None}
    shared |= {"finetuning_args": tuning, "eval_dataset": []}
    if tuning.stage == "sft":
        kind = import_module("llamafactory.train.sft.trainer").CustomSeq2SeqTrainer
    elif tuning.stage == "pt":
        kind = import_module("llamafactory.train.pt.trainer").CustomTrainer
    elif tuning.stage == "rm":
        kind = import_module("llamafactory.train.rm.trainer").PairwiseTrainer
    else:
        return None
    return kind(**shared)


def _pretend() -> None:
    """Let a machine without a GPU pass the checks for bf16 and for packages."""
    for name in ("torchaudio",):  # for data that no text model reads
        if find_spec(name) is None:
            module = sys.modules[name] = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)
    os.environ.setdefault("DISABLE_VERSION_CHECK", "1")
    BEFORE["DISABLE_VERSION_CHECK"] = "1"
    arguments = import_module("transformers.training_args")
    for name in ("is_torch_bf16_gpu_available", "is_torch_tf32_available"):
        if hasattr(arguments, name):
            setattr(arguments, name, lambda: True)
    parser = import_module("llamafactory.hparams.parser")
    vars(parser)["is_torch_bf16_gpu_available"] = lambda: True
    vars(parser)["check_version"] = lambda *_args, **_kwargs: None


if __name__ == "__main__":
    sys.exit(main())
