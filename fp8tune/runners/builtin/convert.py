"""Build the model that a trial trains: FP8, AC, sharding, compile, in this order.

The trainers use the same order: linears become ``Float8Linear`` before anything wraps
them, checkpointing wraps blocks before FSDP2 shards them, and compile comes last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

from fp8tune.runners.builtin.model import Attention, Block, Decoder
from fp8tune.runners.builtin.spec import Spec

DTYPES = {
    "bf16": torch.bfloat16,
    "fp8": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
}
"""Dtype of weights, and of computations that are not in FP8."""


def to_float8(model: nn.Module, spec: Spec) -> int:
    """Convert the linears that the trainer converts to FP8; return how many.

    ``spec.fp8_skips`` are parts of the names of modules that stay in bf16. Errors of
    torchao are passed on.
    """
    if spec.precision != "fp8":
        return 0
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    from torchao.float8.float8_linear import Float8Linear

    config = dataclasses.replace(
        Float8LinearConfig.from_recipe_name(spec.fp8_recipe),
        enable_fsdp_float8_all_gather=spec.fp8_all_gather,
    )

    def wanted(_module: nn.Module, name: str) -> bool:
        return not any(word in name for word in spec.fp8_skips)

    convert_to_float8_training(model, config=config, module_filter_fn=wanted)
    return sum(isinstance(module, Float8Linear) for module in model.modules())


def checkpoint(model: nn.Module, spec: Spec) -> int:
    """Checkpoint every block, or its attention, by the AC mode; return how many."""
    if spec.ac == "none":
        return 0
    kind = Attention if spec.ac_attention_only else Block
    covered = sum(isinstance(module, kind) for module in model.modules())
    apply_activation_checkpointing(
        model,
        checkpoint_wrapper_fn=partial(
            checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT
        ),
        check_fn=lambda module: isinstance(module, kind),
    )
    return covered


def shard(model: Decoder, spec: Spec) -> None:
    """Shard the model with FSDP2 over ``dp_shard`` ranks; this process is rank 0.

    The other ranks do not exist: their process group is a fake one, and the collectives
    act as if every rank held this rank's weights and gradients (``fake_collectives``).
    Parameters, gradients, optimizer state and buffers have their true sizes, so memory
    and compute are real; the loss is not that of the run. After the forward pass the
    root's weights are freed like the blocks': the trainer sets this (parallel.py,
    apply_fsdp2), and it is not torch's default for a root.
    """
    if spec.dp_shard < 2:
        return
    from torch.distributed import init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from fp8tune.runners.builtin.fake_collectives import OwnShare, RepeatedShare

    init_process_group("fake", rank=0, world_size=spec.dp_shard, store=FakeStore())
    mesh = init_device_mesh(spec.device, (spec.dp_shard,), mesh_dim_names=("dp_shard",))
    policy = MixedPrecisionPolicy(
        param_dtype=DTYPES[spec.precision],
        reduce_dtype=torch.float32,
        cast_forward_inputs=True,
    )
    for module in (*model.layers, model):
        sharded = fully_shard(
            module, mesh=mesh, mp_policy=policy, reshard_after_forward=True
        )
        sharded.set_custom_all_gather(RepeatedShare())
        sharded.set_custom_reduce_scatter(OwnShare())


def avoid_slow_kernels(spec: Spec) -> None:
    """Keep a CPU's FP8 matmuls out of oneDNN, which may only have a slow kernel.

    On CPUs with AMX for 8-bit integers torch hands them to oneDNN, whose reference
    kernel took 2.4 s for 1024 x 256 x 256 on one core; torch's own takes 3 ms.
    """
    torch.backends.mkldnn.set_flags(spec.precision != "fp8")


def build(
    spec: Spec, built: Callable[[], None] = lambda: None
) -> tuple[Decoder, dict[str, int]]:
    """Return the model, ready to train, and counts of what was converted and wrapped.

    If there are several ranks, the model is built without storage, and this rank gets
    its share of the weights when the model is sharded. That would separate tied
    weights, so models with tied weights are built whole. The trainer first builds every
    model whole (parallel.py, build_parallel_model), which takes ``memory.init_gib``
    once. A trial does not measure that, so a search refuses too large models before any
    trial. ``built`` is called when the plain model exists, before it is converted.
    """
    torch.manual_seed(spec.seed)
    if spec.device == "cpu":
        avoid_slow_kernels(spec)
    in_part = spec.dp_shard > 1 and not spec.tied_embeddings
    with torch.device("meta" if in_part else spec.device):
        model = Decoder(spec)
    model = model.to(DTYPES[spec.precision])
    built()
    counts = {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "linears": sum(isinstance(m, nn.Linear) for m in model.modules()),
        "float8_linears": to_float8(model, spec),
        "checkpointed": checkpoint(model, spec),
    }
    shard(model, spec)
    if in_part:
        model.to_empty(device=spec.device)
        model.init_weights(spec)
    return (torch.compile(model) if spec.compile else model), counts  # type: ignore[return-value]
