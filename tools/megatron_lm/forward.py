"""How many layers of Megatron-LM's GPT model compute in FP8, by its forward pass.

The model is built on the meta device, on one rank, with all degrees 1 and without the
kernels of APEX. Of Transformer Engine there is a stand-in (``te_stand_in.py``); layers
are not computed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

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


def start() -> None:
    """Start a process group of one rank, whose GPU is the meta device."""
    torch, core = import_module("torch"), import_module("megatron.core")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    core.parallel_state.initialize_model_parallel()
    torch.cuda.current_device = lambda: "meta"
    torch.cuda.Stream = lambda *_, **__: None


def fp8_layers(config: Any, build: Callable[[], Any]) -> int:
    """Return how many layers have a linear that computes in FP8.

    ``build`` makes the model of ``config``, which is changed to that of one rank.
    """
    torch, te = import_module("torch"), import_module("transformer_engine.pytorch")
    for name, value in ON_ONE_RANK.items():
        setattr(config, name, value)
    with torch.device("meta"):
        decoder = build().decoder
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

    for layer in decoder.layers:
        stub(layer)
    decoder.set_input_tensor(hidden)
    decoder(hidden_states=hidden, attention_mask=None)
    return sum(entered)
