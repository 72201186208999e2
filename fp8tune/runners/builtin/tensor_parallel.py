"""Split a trial's model over tensor-parallel ranks, as its trainer does.

Two plans differ in what is sent. KempnerForge keeps a whole embedding on each rank, and
each linear gathers its own input. torchtitan splits the embedding by words, and
attention and FFN gather their input once; its loss works on the parts of the logits.
Sources: KempnerForge at 5666d0d, distributed/tensor_parallel.py;
torchtitan 0.2.2, models/llama3/infra/parallelize.py.
"""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from fp8tune.runners.builtin.model import Block, Decoder, FeedForward
from fp8tune.runners.builtin.spec import Spec

LENGTHS = Shard(1)
"""Between blocks each rank has a part of every sequence."""


def split(model: Decoder, mesh: DeviceMesh, spec: Spec) -> None:
    """Split linears, and with sequence parallelism norms, embedding and head."""
    for block in cast(list[Block], model.layers):
        parallelize_module(block, mesh, _block_plan(block, spec))
        if spec.sequence_parallel and not spec.gathers_once:
            for part in (block.attention, block.mlp):
                part.register_forward_hook(_As(mesh, LENGTHS))
    if not spec.sequence_parallel:
        return
    plan: dict[str, Any] = {
        "norm": SequenceParallel(),
        "output_head.proj": ColwiseParallel(
            input_layouts=LENGTHS,
            output_layouts=Shard(-1) if spec.loss_parallel else Replicate(),
            use_local_output=not spec.loss_parallel,
        ),
    }
    if spec.splits_embedding:
        plan["embedding"] = RowwiseParallel(
            input_layouts=Replicate(), output_layouts=LENGTHS
        )
    else:
        model.embedding.register_forward_hook(_As(mesh, Replicate()))
    parallelize_module(model, mesh, plan)


def _block_plan(block: Block, spec: Spec) -> dict[str, Any]:
    """Return how the modules of a block are split; experts are whole on each rank."""
    parts = spec.sequence_parallel
    into: dict[str, Any] = {}
    if parts and not spec.gathers_once:
        into["input_layouts"] = LENGTHS
    out: dict[str, Any] = {"output_layouts": LENGTHS} if parts else {}
    plan: dict[str, Any] = {
        **{f"attention.{name}_proj": ColwiseParallel(**into) for name in "qkv"},
        "attention.o_proj": RowwiseParallel(**out),
    }
    if isinstance(block.mlp, FeedForward):
        plan["mlp.up_proj"] = ColwiseParallel(**into)
        plan["mlp.down_proj"] = RowwiseParallel(**out)
        if block.mlp.gate_proj is not None:
            plan["mlp.gate_proj"] = ColwiseParallel(**into)
    if parts:
        plan |= {"attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel()}
    if parts and spec.gathers_once:
        tables = [None] * (1 if spec.rotary == "pairs" else 2)
        plan["attention"] = _gathered_input(tables)
        plan["mlp"] = _gathered_input([])
    return plan


def _gathered_input(others: list[None]) -> PrepareModuleInput:
    """Gather the first input of a module; the others are plain tensors."""
    return PrepareModuleInput(
        input_layouts=(LENGTHS, *others),
        desired_input_layouts=(Replicate(), *others),
    )


class _As:
    """A forward hook that tells how a module's plain output is laid out."""

    def __init__(self, mesh: DeviceMesh, layout: Replicate | Shard) -> None:
        self.mesh = mesh
        self.layout = layout

    def __call__(self, _module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        if isinstance(output, DTensor):
            return output
        return DTensor.from_local(output, self.mesh, [self.layout], run_check=False)
