"""What Megatron-LM itself says of flags, one JSON line each.

``PYTHON -m benchmarks.megatron_lm.judge CHECKOUT < configs.jsonl`` needs a Python with
torch, triton and numpy. An input line holds ``flags`` (the arguments) and
``world_size``. The output adds ``error`` (empty if the arguments are accepted), and if
they are, ``failure`` (empty if the model can be built) and ``fp8``: the number of
layers that have linears of Transformer Engine and run inside of its FP8 autocast.

Arguments go through the parser of ``pretrain_gpt.py``, ``validate_args``,
``TransformerConfig``, ``gpt_builder`` and the forward pass of ``TransformerBlock``,
without a GPU. GPUs are taken to be Hopper's, and ``CUDA_DEVICE_MAX_CONNECTIONS`` to be
as the arguments need it. Of Transformer Engine there is a stand-in
(``te_stand_in.py``); layers are not computed. The model is built on the meta device,
on one rank, the last stage, with all degrees 1 and without the kernels of APEX.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.megatron_lm import te_stand_in
from benchmarks.megatron_lm.source import module

HOPPER = 9
SHARDED = ("--use-torch-fsdp2", "--use-megatron-fsdp")
"""With these, connections must not be limited to one; else they must, with TP."""


ON_ONE_RANK = {
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 1,
    "virtual_pipeline_model_parallel_size": None,
    "context_parallel_size": 1,
    "expert_model_parallel_size": 1,
    "expert_tensor_parallel_size": 1,
    "sequence_parallel": False,
    "gradient_accumulation_fusion": False,
    "persist_layer_norm": False,
    "use_cpu_initialization": True,
    "perform_initialization": False,
}
"""What is set so that the model can be built here."""


def main() -> int:
    """Judge the configs on standard input."""
    warnings.simplefilter("ignore")
    package = tempfile.TemporaryDirectory()
    te_stand_in.install(package.name)
    arguments = module(Path(sys.argv[1]))
    arguments.get_device_arch_version = lambda: HOPPER
    logging.disable()
    _start()
    before = dict(os.environ)
    for line in sys.stdin:
        config = json.loads(line)
        os.environ.clear()  # Megatron-LM sets variables of Transformer Engine
        os.environ.update(before)
        found: list[Any] = []
        config["error"] = error(arguments, config, found)
        if not config["error"]:
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    config["failure"], config["fp8"] = "", layers(*found)
            except Exception as failed:
                config["failure"] = f"{type(failed).__name__}: {failed}"[:300]
        print(json.dumps(config), flush=True)
    os._exit(0)


def _start() -> None:
    """Start a process group of one rank, whose GPU is the meta device."""
    torch, core = import_module("torch"), import_module("megatron.core")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    core.parallel_state.initialize_model_parallel()
    torch.cuda.current_device = lambda: "meta"
    torch.cuda.Stream = lambda *_, **__: None


def layers(args: Any, config: Any) -> int:
    """Return how many layers have a linear that computes in FP8."""
    torch, te = import_module("torch"), import_module("transformer_engine.pytorch")
    vars(import_module("megatron.training.global_vars"))["_GLOBAL_ARGS"] = args
    args.padded_vocab_size = 256
    is_first = args.pipeline_model_parallel_size == 1
    for name, value in ON_ONE_RANK.items():
        setattr(config, name, value)
    with torch.device("meta"):
        model = import_module("gpt_builders").gpt_builder(
            args, is_first, True, config=config
        )
        hidden = torch.zeros(4, 1, config.hidden_size)
    entered: list[bool] = []

    def stub(layer: Any) -> None:
        kinds = (te.Linear, te.GroupedLinear)
        has_linears = any(isinstance(part, kinds) for part in layer.modules())

        def forward(hidden_states: Any = None, *_: Any, **__: Any) -> Any:
            recipe = te.active[-1] if te.active else None
            is_fp8 = recipe and type(recipe).__name__ != "NVFP4BlockScaling"
            entered.append(bool(is_fp8 and has_linears))
            return hidden_states, None

        layer.forward = forward

    for layer in model.decoder.layers:
        stub(layer)
    model.decoder.set_input_tensor(hidden)
    model.decoder(hidden_states=hidden, attention_mask=None)
    return sum(entered)


def error(arguments: Any, config: dict[str, Any], found: list[Any]) -> str:
    """Return why the arguments are refused; empty if they are not.

    Else ``found`` gets the arguments and the config of the model.
    """
    flags = config["flags"]
    alone = any(flag in flags for flag in SHARDED)
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "8" if alone else "1"
    os.environ["WORLD_SIZE"] = str(config["world_size"])
    sys.argv = ["pretrain_gpt.py", *flags]
    said = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(said),
        ):
            args = arguments.parse_args()
            arguments.validate_args(args)
            found += args, arguments.core_transformer_config_from_args(args)
    except SystemExit:
        return f"argparse: {said.getvalue().strip().splitlines()[-1]}"
    except Exception as refused:
        return f"{type(refused).__name__}: {refused}"[:300]
    return ""


if __name__ == "__main__":
    sys.exit(main())
