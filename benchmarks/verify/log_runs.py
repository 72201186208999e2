"""One run of a trainer's own program on the CPU, small, with its usual output.

``PYTHON -m benchmarks.verify.log_runs TRAINER CASE [CHECKOUT]`` runs in the current
folder. A case is ``bf16``, ``fp8`` or ``fp8_filtered``: then a filter skips all modules
and the trainer's lines stay the same. ``log_fixtures`` starts these runs and keeps
their output.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.rule_evidence.worker import stand_in_for_cuda

STEPS = 4

KEMPNERFORGE = """
[model]
dim = 64
n_layers = 2
n_heads = 4
n_kv_heads = 4
vocab_size = 256
max_seq_len = 64
[train]
batch_size = 2
seq_len = 32
max_steps = {steps}
mixed_precision = "{precision}"
activation_checkpointing = "full"
compile_model = false
[optimizer]
lr = {rate}
[scheduler]
warmup_steps = 0
[metrics]
log_interval = 1
[distributed]
backend = "gloo"
"""

TORCHTITAN = """
[model]
name = "llama3"
flavor = "debugmodel"
hf_assets_path = "tokenizer"
converters = [{converters}]
[optimizer]
lr = 8e-4
[training]
local_batch_size = 2
seq_len = 64
steps = {steps}
dataset = "c4_test"
[metrics]
log_freq = 1
[lr_scheduler]
warmup_steps = 2
[activation_checkpoint]
mode = "selective"
"""


def main() -> None:
    """Run one case; the file ``converted`` says how many modules became FP8."""
    trainer, case = sys.argv[1:3]
    checkout = Path(sys.argv[3]) if len(sys.argv) > 3 else Path()
    converted = watch_conversion(nothing=case == "fp8_filtered")
    try:
        RUNS[trainer](case, checkout)
    finally:
        Path("converted").write_text(str(sum(converted)))


def watch_conversion(nothing: bool) -> list[int]:
    """Return a list that will have the number of modules of each conversion.

    With ``nothing`` a filter skips every module.
    """
    float8: Any = import_module("torchao.float8")
    linear: Any = import_module("torchao.float8.float8_linear")
    convert, counts = float8.convert_to_float8_training, []

    def watched(module: Any, **options: Any) -> Any:
        if nothing:
            options["module_filter_fn"] = lambda *_: False
        module = convert(module, **options)
        found = (isinstance(each, linear.Float8Linear) for each in module.modules())
        counts.append(sum(found))
        return module

    float8.convert_to_float8_training = watched
    return counts


def kempnerforge(case: str, checkout: Path) -> None:
    """Run scripts/train.py; ``nan`` is a learning rate that ends in NaN."""
    sys.path.insert(0, str(checkout))
    precision = "fp8" if case.startswith("fp8") else "bf16"
    nan = case == "nan"
    text = KEMPNERFORGE.format(
        steps=40 if nan else STEPS, precision=precision, rate=1e30 if nan else 3e-4
    )
    Path("train.toml").write_text(text, encoding="utf-8")
    stand_in_for_cuda()
    sys.argv = ["train.py", "train.toml"]
    runpy.run_path(str(checkout / "scripts" / "train.py"), run_name="__main__")


def torchtitan(case: str, _checkout: Path) -> None:
    """Run torchtitan.train; its calls that insist on CUDA get the CPU."""
    sys.argv = ["train.py", "--job.config_file", "train.toml"]  # read on import
    utils: Any = import_module("torchtitan.tools.utils")
    mesh: Any = import_module("torchtitan.distributed.parallel_dims")
    utils.device_type, utils.device_module = "cpu", _Cpu()
    if hasattr(mesh, "device_type"):
        mesh.device_type = "cpu"
    converters = '"quantize.linear.float8"' if case.startswith("fp8") else ""
    text = TORCHTITAN.format(steps=STEPS, converters=converters)
    if case.startswith("fp8"):
        text += "[quantize.linear.float8]\nemulate = true\n"
    Path("train.toml").write_text(text, encoding="utf-8")
    _tokenizer(Path("tokenizer"))
    _dataset()
    runpy.run_module("torchtitan.train", run_name="__main__")


class _Cpu:
    """``torch.cpu`` with the calls that torchtitan makes of ``torch.cuda``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("torch").cpu, name)

    def set_device(self, _device: Any) -> None:
        """Do nothing."""

    def reset_peak_memory_stats(self) -> None:
        """Do nothing."""

    def empty_cache(self) -> None:
        """Do nothing."""

    def current_device(self) -> int:
        """Return the only one."""
        return 0

    def get_device_name(self, _device: Any = None) -> str:
        """Return a name that no table of GPUs has."""
        return "CPU"

    def get_device_properties(self, _device: Any) -> Any:
        """Return what is read of a GPU."""
        return SimpleNamespace(total_memory=8 << 30)

    def memory_stats(self, _device: Any) -> dict[str, int]:
        """Return a peak that was not measured."""
        return {"active_bytes.all.peak": 1 << 30, "reserved_bytes.all.peak": 1 << 30}


def _tokenizer(folder: Path) -> None:
    tokenizers: Any = import_module("tokenizers")
    folder.mkdir(exist_ok=True)
    model = tokenizers.models.WordLevel({"?": 0, "a": 1, "b": 2}, "?")
    tokenizers.Tokenizer(model).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}")


def _dataset() -> None:
    """Replace the test's data set, which is no part of the wheel."""
    text: Any = import_module("torchtitan.hf_datasets.text_datasets")
    datasets: Any = import_module("datasets")
    rows = [{"text": "a b b a " * 200} for _ in range(64)]
    made = datasets.Dataset.from_list(rows)
    text.DATASETS["c4_test"].loader = lambda _path: made


def transformers(case: str, _checkout: Path) -> None:
    """Run the Trainer of Hugging Face and print its model at the end.

    ``fp8`` asks Accelerate for it and leaves ``bf16`` False; ``fp8_bf16`` sets
    ``bf16=True`` as well, which turns FP8 off.
    """
    if case.startswith("fp8"):
        os.environ["ACCELERATE_MIXED_PRECISION"] = "fp8"
    trainer = _trainer(_arguments(bf16=case in ("bf16", "fp8_bf16")))
    trainer.train()
    print(trainer.model)


def llama_factory(case: str, checkout: Path) -> None:
    """Do what LLaMA-Factory's trainer of the stage sft does about FP8."""
    sys.path.insert(0, str(checkout / "src"))
    fp8_utils: Any = import_module("llamafactory.train.fp8_utils")
    library: Any = import_module("transformers")
    library.logging.set_verbosity_info()
    arguments = _arguments(bf16=False)
    arguments.fp8, arguments.fp8_backend = case == "fp8", "auto"
    fp8_utils.configure_fp8_environment(arguments)
    trainer = _trainer(arguments)
    fp8_utils.verify_fp8_status(trainer.accelerator, arguments)
    trainer.train()


def _arguments(bf16: bool) -> Any:
    library: Any = import_module("transformers")
    return library.TrainingArguments(
        output_dir="out",
        max_steps=STEPS,
        per_device_train_batch_size=2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=bf16,
    )


def _trainer(arguments: Any) -> Any:
    """Return a Trainer of a small Llama with random weights, on random tokens."""
    torch: Any = import_module("torch")
    library: Any = import_module("transformers")
    config = library.LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    rows = [
        {"input_ids": (ids := torch.randint(0, 256, (32,))), "labels": ids}
        for _ in range(32)
    ]
    model = library.LlamaForCausalLM(config)
    return library.Trainer(model=model, args=arguments, train_dataset=rows)


RUNS: dict[str, Callable[[str, Path], None]] = {
    "kempnerforge": kempnerforge,
    "torchtitan": torchtitan,
    "transformers": transformers,
    "llama_factory": llama_factory,
}

if __name__ == "__main__":
    main()
