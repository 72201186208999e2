"""What installed releases of Accelerate, transformers and TRL make of configs.

``python tools/accelerate/judge.py < configs.jsonl`` needs a Python with torch,
torchao, accelerate, transformers and trl. An input line holds ``text``, the YAML that
``accelerate launch --config_file`` reads, and for what comes after the launcher
``training``, the training arguments or null, and ``program``: ``trainer``, ``trl``,
``accelerator`` for a script that calls ``Accelerator()``, or ``""`` to look at the
launcher alone. ``deepspeed`` is the DeepSpeed file that the others call ``ds.json``. An
output line adds:

- ``error``: what the launcher ends with before the script starts, ``""`` if it starts;
- ``failure``: what the script's set-up ends with up to the first step;
- ``linears``: how many modules of a tiny decoder compute in FP8 then: torchao's
  ``Float8Linear``, and Transformer Engine's if a forward pass enters its FP8 autocast;
- ``te``: with ``backend: TE``, what becomes of the model: how many linears are
  converted, whether the head is, whether the FP8 autocast is entered, and the options
  of its recipe.

The launcher sees 8 GPUs and starts nothing. The set-up runs in one process on the CPU,
with the environment that the launcher made; to reach FSDP, the process group says that
it is one of GPUs. Of Transformer Engine, which needs a GPU, there is a stand-in with
linears of torch (``tools/llamafactory/te_stand_in.py``).
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

SECONDS, TRIES = 90, 2
"""Longest time for one config, and how often one that hangs is tried. DeepSpeed builds
its operators at their first use; two builds at a time wait for each other."""

SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}
"""A decoder of 15 linears; Accelerate leaves the first and the last as they are."""


FILE = "ds.json"
"""What configs call the DeepSpeed file."""

DEVICE = ("is not supported on your device", "No module named", "timeout")
"""Words of errors that a busy CPU without these packages ends with, not the config."""

STAND_IN = Path(__file__).parents[1] / "llamafactory" / "te_stand_in.py"


def main() -> int:
    """Judge the configs on standard input."""
    package = tempfile.TemporaryDirectory()
    runpy.run_path(str(STAND_IN))["install"](package.name)
    for name in ("accelerate.commands.launch", "torchao.float8", "transformers"):
        import_module(name)
    context = multiprocessing.get_context("fork")
    release = import_module("accelerate").__version__
    for line in sys.stdin:
        config = json.loads(line)
        verdict: dict[str, Any] | None = None
        for _ in range(TRIES):
            verdict = verdict or _tried(context, config)
        if verdict and not any(words in verdict["failure"] for words in DEVICE):
            print(json.dumps({"release": release} | config | verdict), flush=True)
    return 0


def _tried(context: Any, config: dict[str, Any]) -> dict[str, Any] | None:
    """Return the verdict of a process of its own; ``None`` if it hangs."""
    here, there = context.Pipe(False)
    worker = context.Process(target=_judge, args=(config, there))
    worker.start()
    there.close()
    verdict: dict[str, Any] | None = None
    if here.poll(SECONDS):
        with contextlib.suppress(EOFError):
            verdict = here.recv()
    worker.join(2)
    worker.kill()
    return verdict


def _judge(config: dict[str, Any], pipe: Any) -> None:
    """Send the verdict on one config."""
    sys.stdout = sys.stderr = io.StringIO()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    verdict: dict[str, Any] = {"error": "", "failure": "", "linears": None}
    environment: dict[str, str] = {}
    folder = tempfile.TemporaryDirectory()
    os.chdir(folder.name)
    if config.get("deepspeed") is not None:
        Path(FILE).write_text(json.dumps(config["deepspeed"]), encoding="utf-8")
    try:
        environment = _launched(config["text"])
    except BaseException as error:
        verdict["error"] = _said(error)
    if config.get("program") and not verdict["error"]:
        try:
            wrong = [k for k, v in environment.items() if not isinstance(v, str)]
            if wrong:  # subprocess refuses it
                raise TypeError(f"expected str, not {environment[wrong[0]]!r}")
            os.environ.update(environment)
            verdict |= _converted(config)
        except BaseException as error:
            verdict["failure"] = _said(error)
    pipe.send(verdict)


def _said(error: BaseException) -> str:
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _launched(text: str) -> dict[str, str]:
    """Return the environment that ``accelerate launch`` gives the script."""
    command = import_module("accelerate.commands.launch")
    launch = import_module("accelerate.utils.launch")
    with _file(text) as path, _gpus(8):
        words = ["--config_file", path, "train.py"]
        args = command.launch_command_parser().parse_args(words)
        try:
            args, defaults, own = command._validate_launch_command(args)
            if args.use_deepspeed:
                fields = [*defaults.deepspeed_config, *["mixed_precision"] * own]
                args.deepspeed_fields_from_accelerate_config = ",".join(fields)
                return dict(launch.prepare_deepspeed_cmd_env(args)[1])
            if args.use_fsdp or args.multi_gpu or args.use_megatron_lm:
                return dict(launch.prepare_multi_gpu_env(args))
            return dict(launch.prepare_simple_launcher_cmd_env(args)[1])
        except BaseException as error:
            said = tuple(str(each).replace(path, "CONFIG") for each in error.args)
            raise type(error)(*said[:1]) from error


@contextlib.contextmanager
def _file(text: str) -> Iterator[str]:
    """A file that holds a text."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(text)
    try:
        yield file.name
    finally:
        os.unlink(file.name)


@contextlib.contextmanager
def _gpus(count: int) -> Iterator[None]:
    """Let torch see GPUs."""
    torch = import_module("torch")
    kept = torch.cuda.is_available, torch.cuda.device_count
    torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: count
    try:
        yield
    finally:
        torch.cuda.is_available, torch.cuda.device_count = kept


def _converted(config: dict[str, Any]) -> dict[str, Any]:
    """Return what of the model is in FP8 when training would begin."""
    torch, transformers = import_module("torch"), import_module("transformers")
    linear = import_module("torchao.float8.float8_linear").Float8Linear
    asked = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
    own = (config["training"] or {}).get("deepspeed")
    if own or "true" in map(os.environ.get, asked):
        _one_gpu()
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    if config["program"] == "accelerator":
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        accelerator = import_module("accelerate").Accelerator()
        model, _ = accelerator.prepare(model, optimizer)
    else:
        model = _with_trainer(config, model)
    if os.environ.get("ACCELERATE_FP8_BACKEND") == "TE":
        return _with_te(torch, model)
    return {"linears": sum(isinstance(module, linear) for module in model.modules())}


def _with_te(torch: Any, model: Any) -> dict[str, Any]:
    """Return what Transformer Engine computes: linears, head, autocast and options."""
    te = import_module("transformer_engine.pytorch")
    tokens = torch.arange(16)[None]
    model.train()
    with contextlib.suppress(Exception):
        model(input_ids=tokens, labels=tokens)
    found = [n for n, each in model.named_modules() if isinstance(each, te.Linear)]
    entered = [options for enabled, options in te.entered if enabled]
    said = {"linears": len(found), "head": any("lm_head" in name for name in found)}
    said |= {"autocast": bool(entered), "options": entered[0] if entered else {}}
    return {"linears": len(found) if entered else 0, "te": said}


def _one_gpu() -> None:
    """Start a process group of one that passes for one of GPUs."""
    torch, state = import_module("torch"), import_module("accelerate.state")
    kind = import_module("accelerate.utils").DistributedType.MULTI_GPU
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    os.environ.update(ranks | address | {"DS_ACCELERATOR": "cpu"})
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)

    def device(self: Any) -> None:
        self.device = torch.device("cpu")

    state.PartialState._prepare_backend = lambda *_, **__: ("gloo", kind)
    state.PartialState.set_device = device


class _Reached(Exception):
    """Training would begin."""


def _with_trainer(config: dict[str, Any], model: Any) -> Any:
    """Return the model that a Trainer has prepared for its first step."""
    torch, transformers = import_module("torch"), import_module("transformers")
    kind = transformers.TrainingArguments
    if config["program"] == "trl":
        kind = import_module("trl").SFTConfig

    def stop(*_: Any, **__: Any) -> None:
        raise _Reached

    callback = type("Stop", (transformers.TrainerCallback,), {"on_train_begin": stop})
    rows = [{"input_ids": torch.arange(16), "labels": torch.arange(16)}] * 4
    with tempfile.TemporaryDirectory() as folder:
        values = {"report_to": "none", "max_steps": 1, "use_cpu": True}
        values |= (config["training"] or {}) | {"output_dir": folder}
        (arguments,) = transformers.HfArgumentParser(kind).parse_dict(values)
        given = {"train_dataset": rows, "callbacks": [callback()]}
        trainer = transformers.Trainer(model, arguments, **given)
        with contextlib.suppress(_Reached):
            trainer.train()
        return trainer.model_wrapped


if __name__ == "__main__":
    sys.exit(main())
