"""What a release of torchtitan itself says of configs, one JSON line each.

``python -m tools.torchtitan.judge SITE < configs.jsonl`` needs a Python with
torch, torchao and what torchtitan imports. SITE is a folder with the unpacked wheel.
An input line holds ``version``, ``world_size`` and ``toml``. The output adds ``error``,
the exception, and ``stage``, where it was raised (``accepted`` if none was).

The stages are those of ``Trainer.__init__`` for rank 0 of as many ranks as the config
runs on: config manager, mesh (torch's fake process group), model on the meta device,
converters, batch sizes, sharding, autocast. GPUs are taken to have FP8. Left out, as
they depend on the machine: tokenizer, data set, memory. A pipeline is not split: the
whole model stands for a stage. Each config is judged in a process of its own, because
torchtitan changes global state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

SECONDS = 120
"""Time for one config; a debug model takes less than one."""

DEGREES = {
    "dp_replicate": "data_parallel_replicate_degree",
    "dp_shard": "data_parallel_shard_degree",
    "cp": "context_parallel_degree",
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "ep": "expert_parallel_degree",
    "etp": "expert_tensor_parallel_degree",
}
"""Fields of ``ParallelDims`` and the keys that set them."""


def main() -> int:
    """Judge the configs on standard input."""
    sys.path.insert(0, sys.argv[1])
    os.environ.setdefault("LOCAL_RANK", "0")
    with contextlib.redirect_stdout(sys.stderr):
        import_module("torchtitan.train")
    context = multiprocessing.get_context("fork")
    for line in sys.stdin:
        config = json.loads(line)
        there, here = context.Pipe(duplex=False)
        process = context.Process(target=_judged, args=(config, here))
        process.start()
        here.close()
        verdict = {"stage": "", "error": "no answer"}
        with contextlib.suppress(EOFError):
            if there.poll(SECONDS):
                verdict = there.recv()
        if process.is_alive():
            process.join(1)
            process.kill()
        print(json.dumps(config | verdict), flush=True)
    return 0


def _judged(config: dict[str, Any], answer: Connection) -> None:
    """Send the verdict on one config."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    pretend_gpu()
    entered = "start"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run = Start(config["toml"], config["world_size"])
            for entered in run.stages():  # noqa: B007
                pass
    except BaseException as error:  # tyro raises SystemExit
        text = " ".join(str(error).split())[:120]
        answer.send({"stage": entered, "error": f"{type(error).__name__}: {text}"})
    else:
        answer.send({"stage": "accepted", "error": ""})


def pretend_gpu() -> None:
    """Let torchtitan's modules take this CPU for a GPU with FP8."""
    for name, module in list(sys.modules.items()):
        if name.startswith("torchtitan"):
            if hasattr(module, "has_cuda_capability"):
                vars(module)["has_cuda_capability"] = lambda *_: True
            if getattr(module, "device_type", "") == "cuda":
                vars(module)["device_type"] = "cpu"


class Start:
    """The trainer's start with one config, up to the sharded model.

    After ``stages`` it has torchtitan's own objects: ``config``, ``dims``, ``spec``,
    ``model``, ``converters`` and ``autocast``.
    """

    def __init__(self, text: str, world_size: int) -> None:
        self.text, self.world_size = text, world_size

    def stages(self) -> Iterator[str]:
        """Follow the start; yield the name of each stage before it."""
        import torch
        import torch.distributed
        from torch.testing._internal.distributed.fake_pg import FakeStore

        yield "config"
        self.config = config = _config(self.text)
        yield "degrees"
        self.dims = dims = _dims(config, self.world_size)
        yield "mesh"
        store = FakeStore()
        torch.distributed.init_process_group(
            "fake", rank=0, world_size=self.world_size, store=store
        )
        mesh = _mesh(dims)
        yield "model"
        specs = import_module("torchtitan.protocols.train_spec")
        self.spec = spec = specs.get_train_spec(config.model.name)
        flavors = getattr(spec, "model_args", None) or spec.config
        arguments = flavors[config.model.flavor]
        _update(arguments, config)
        with torch.device("meta"), _dtype(config.training):
            model_class = getattr(spec, "model_cls", None) or spec.cls
            self.model = model_class(arguments)
        yield "converters"
        module = import_module("torchtitan.protocols.model_converter")
        self.converters = module.build_model_converters(config, dims)
        self.converters.convert(self.model)
        yield "batch"
        _batch(config.training, dims.dp_replicate * dims.dp_shard)
        if dims.pp_enabled and not spec.pipelining_fn:
            raise RuntimeError("no pipeline for this model")
        yield "sharding"
        _parallelize(spec.parallelize_fn, self.model, mesh, dims, config)
        yield "autocast"
        utils = import_module("torchtitan.distributed.utils")
        kind = config.training.mixed_precision_param
        self.autocast = utils.maybe_enable_amp(dims, kind, "cpu")


def _config(text: str) -> Any:
    """The config as the trainer's own manager reads it."""
    try:
        manager = import_module("torchtitan.config").ConfigManager
    except ModuleNotFoundError:
        manager = import_module("torchtitan.config_manager").ConfigManager
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return manager().parse_args([f"--job.config_file={file.name}"])


def _dims(config: Any, world_size: int) -> Any:
    kind = import_module("torchtitan.distributed").ParallelDims
    degrees = config.parallelism
    given = {
        field: getattr(degrees, key)
        for field, key in DEGREES.items()
        if hasattr(degrees, key)
    }
    if "enable_loss_parallel" in {field.name for field in dataclasses.fields(kind)}:
        given["enable_loss_parallel"] = not degrees.disable_loss_parallel
    return kind(**given, world_size=world_size)


def _mesh(dims: Any) -> Any:
    """The device mesh on the CPU; 0.1.0 takes the device as an argument."""
    names = dims.build_mesh.__code__.co_varnames
    return dims.build_mesh("cpu") if "device_type" in names[:2] else dims.build_mesh()


def _update(arguments: Any, config: Any) -> None:
    """Take over the config; 0.1.0 also asks the tokenizer for its vocabulary."""
    names = arguments.update_from_config.__code__.co_varnames
    if "tokenizer" in names[:3]:
        words = {"n_words": 128256, "eos_id": 0}  # those of Llama 3
        arguments.update_from_config(config, type("Tokenizer", (), words)())
    else:
        arguments.update_from_config(config)


def _dtype(training: Any) -> contextlib.AbstractContextManager[Any]:
    """The dtype of weights; 0.1.0 has no key for it."""
    if not hasattr(training, "dtype"):
        return contextlib.nullcontext()
    dtypes = import_module("torchtitan.config").TORCH_DTYPE_MAP
    tools = import_module("torchtitan.tools.utils")
    context: contextlib.AbstractContextManager[Any] = tools.set_default_dtype(
        dtypes[training.dtype]
    )
    return context


def _batch(training: Any, ranks: int) -> None:
    whole = training.global_batch_size
    if whole < 0:
        whole = training.local_batch_size * ranks
    if not whole > 0 or whole % (training.local_batch_size * ranks):
        raise AssertionError("global batch")
    if not whole // (training.local_batch_size * ranks) > 0:
        raise AssertionError("gradient accumulation")


def _parallelize(
    function: Callable[..., Any], model: Any, mesh: Any, dims: Any, config: Any
) -> None:
    count = function.__code__.co_argcount
    function(model, *((mesh,) if count > 3 else ()), dims, config)


if __name__ == "__main__":
    sys.exit(main())
