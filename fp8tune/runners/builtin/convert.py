"""Build the model that a trial trains: FP8, AC, sharding and compile.

The trainers use the same order: linears become ``Float8Linear`` before anything wraps
them, and checkpointing wraps blocks before FSDP2 shards them. Blocks are compiled
before they are sharded, a whole model at the end.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import torch
import torch._functorch.config as functorch
import torch._inductor.config as inductor
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.checkpoint import (
    CheckpointPolicy,
    create_selective_checkpoint_contexts,
)

from fp8tune.runners.builtin.experts import Router
from fp8tune.runners.builtin.model import Attention, Block, Decoder
from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.team import build_meshes

DTYPES = {
    "bf16": torch.bfloat16,
    "fp8": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
}
"""Dtype of computations that are not in FP8, and of weights that are not fp32."""


def to_float8(model: nn.Module, spec: Spec) -> int:
    """Convert the linears that the trainer converts to FP8; return how many.

    ``spec.bf16_linears`` are parts of the names of modules that stay in bf16. Errors of
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

    large = _large_enough(spec) if spec.fp8_auto_filter else None

    def wanted(module: nn.Module, name: str) -> bool:
        if any(word in name for word in spec.bf16_linears):
            return False
        return large is None or bool(large(module, name))

    if spec.compile:
        from fp8tune.runners.builtin.compile_cache import reuse_float8_graphs

        reuse_float8_graphs()
    convert_to_float8_training(model, config=config, module_filter_fn=wanted)
    return sum(isinstance(module, Float8Linear) for module in model.modules())


def _large_enough(spec: Spec) -> Callable[[nn.Module, str], bool]:
    """Torchao's own choice of linears that are large enough to gain."""
    from torchao.float8 import _auto_filter_for_recipe

    chosen: Callable[[nn.Module, str], bool] = _auto_filter_for_recipe(
        spec.fp8_recipe, filter_fqns=[]
    )
    return chosen


def all_scales(model: nn.Module) -> None:
    """Compute the FP8 scales of all weights at once, with one reduction over ranks."""
    from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

    precompute_float8_dynamic_scale_for_fsdp(model)


def checkpoint(model: nn.Module, spec: Spec) -> int:
    """Wrap what the AC mode recomputes, blocks or their attention; return how many.

    ``every-n`` wraps each n-th block; with a memory budget the compiler decides.
    """
    if spec.ac == "none":
        return 0
    if spec.ac == "memory_budget":
        functorch.activation_memory_budget = spec.ac_budget
        return 0
    kind = Attention if spec.ac_attention_only else Block
    period = int(spec.ac.removeprefix("every-")) if spec.ac.startswith("every-") else 1
    blocks = [module for module in model.modules() if isinstance(module, kind)]
    chosen = set(blocks[period - 1 :: period])
    options: dict[str, Any] = {
        "preserve_rng_state": spec.ac_keeps_rng,
        "early_stop": spec.ac_stops_early,
    }
    if spec.ac == "op":
        options["context_fn"] = per_operator_contexts(saved_operators(spec))
    apply_activation_checkpointing(
        model,
        checkpoint_wrapper_fn=partial(
            checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT, **options
        ),
        check_fn=chosen.__contains__,
    )
    return len(chosen)


def save_some_operators(saved: tuple[str, ...]) -> Any:
    """Contexts of per-op AC: keep what ``saved`` names, and each second product.

    Source: torchtitan 0.2.2, distributed/activation_checkpoint.py.
    """
    operators = {attrgetter(name)(torch.ops) for name in saved}
    products = {False: 0, True: 0}

    def policy(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        keeps = operator in operators
        if operator == torch.ops.aten.mm.default:
            products[context.is_recompute] += 1
            keeps = products[context.is_recompute] % 2 == 1
        if keeps:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def per_operator_contexts(saved: tuple[str, ...]) -> Callable[[], Any]:
    """Return the ``context_fn`` of per-op AC, with which torch caches compiled code.

    torch needs a ``cache_hash`` that says all that the policy depends on, and arguments
    that can be pickled, so names (``_functorch/_aot_autograd/autograd_cache.py``).
    """
    contexts = partial(save_some_operators, saved)
    policy = inspect.getsource(save_some_operators)
    vars(contexts)["cache_hash"] = f"{policy}{saved}"
    return contexts


ATTENTION = {
    "flash": "_scaled_dot_product_flash_attention",
    "efficient": "_scaled_dot_product_efficient_attention",
    "cudnn": "_scaled_dot_product_cudnn_attention",
    "math": "_scaled_dot_product_attention_math",
}
"""Operators of attention, by the names of their kernels in configs."""


def saved_operators(spec: Spec) -> tuple[str, ...]:
    """Names of operators whose results per-op AC keeps beside products.

    The largest value of a tensor is always kept: its FP8 scale follows from it; so are
    sums that were reduced over tensor-parallel ranks.
    """
    names = [*(ATTENTION[kernel] for kernel in spec.ac_saves), "max"]
    operators = [f"aten.{name}.default" for name in names]
    if spec.tp > 1:
        operators.append("_c10d_functional.reduce_scatter_tensor.default")
    return tuple(operators)


def compile_blocks(model: Decoder) -> None:
    """Compile each block by itself: alike ones share what was compiled."""
    for number, block in enumerate(model.layers):
        compiled: Any = torch.compile(block, fullgraph=True)
        model.layers[number] = compiled


def shard(model: Decoder, mesh: DeviceMesh, spec: Spec) -> None:
    """Shard the model with FSDP2 over the ranks of a mesh.

    If this process is alone, the other ranks do not exist: their process group is a
    fake one, and the collectives act as if every rank held this rank's weights and
    gradients (``fake_collectives``). Parameters, gradients, optimizer state and buffers
    have their true sizes, so memory and compute are real; the loss is not that of the
    run. ``reshards`` says which weights are freed after the forward pass: all of them,
    the root's too, where it is ``always``; with ``but-last`` not those of the last
    unit, which the backward pass needs first.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    from fp8tune.runners.builtin.fake_collectives import OwnShare, RepeatedShare

    policy = MixedPrecisionPolicy(
        param_dtype=DTYPES[spec.precision],
        reduce_dtype=torch.float32,
        cast_forward_inputs=True,
    )
    units: list[list[nn.Module]] = [[block] for block in model.layers]
    if spec.tables_apart:
        units = [[model.embedding], *units, [model.norm, model.output_head]]
    frees = [spec.reshards != "never"] * len(units)
    if spec.reshards == "but-last":
        frees[-1] = False
    units, frees = [*units, [model]], [*frees, True]
    for unit, free in zip(units, frees, strict=True):
        modules: Any = unit if len(unit) > 1 else unit[0]
        fully_shard(modules, mesh=mesh, mp_policy=policy, reshard_after_forward=free)
        if spec.ranks > 1:
            continue
        first: Any = unit[0]
        first.set_custom_all_gather(RepeatedShare())
        first.set_custom_reduce_scatter(OwnShare())
    for module in model.modules() if spec.ranks < 2 else ():
        if isinstance(module, Router):
            module.tell_rows_apart(spec.device)


def avoid_slow_kernels(spec: Spec) -> None:
    """Keep a CPU's FP8 matmuls out of oneDNN, which may only have a slow kernel.

    On CPUs with AMX for 8-bit integers torch hands them to oneDNN, whose reference
    kernel took 2.4 s for 1024 x 256 x 256 on one core; torch's own takes 3 ms.
    """
    torch.backends.mkldnn.set_flags(spec.precision != "fp8")


def _in_part(spec: Spec) -> bool:
    """Return whether the model is built without storage first.

    That would separate tied weights. On the CPU real ranks build whole weights where
    the trainer does, so that equal seeds give equal weights.
    """
    as_trainer = spec.ranks > 1 and spec.device == "cpu" and spec.builds_whole
    if spec.tied_embeddings or as_trainer:
        return False
    return spec.dp_shard > 1 or spec.tp > 1


def build(
    spec: Spec, built: Callable[[], None] = lambda: None
) -> tuple[Decoder, dict[str, int]]:
    """Return the model, ready to train, and counts of what was converted and wrapped.

    If there are several ranks, the model is built without storage (``_in_part``), and
    this rank gets its share of the weights when the model is sharded. KempnerForge
    first builds every model whole (parallel.py, build_parallel_model), which takes
    ``memory.init_gib`` once. A trial does not measure that, so a search refuses too
    large models before any trial. ``built`` is called when the plain model exists,
    before it is converted.
    """
    torch.manual_seed(spec.seed)
    if spec.device == "cpu":
        avoid_slow_kernels(spec)
    in_part = _in_part(spec)
    with torch.device("meta" if in_part else spec.device):
        model = Decoder(spec)
    dtype = torch.float32 if spec.weight_bytes > 2 else DTYPES[spec.precision]
    # real ranks draw weights in fp32 as KempnerForge does; FP8 weights stay as they are
    drawn_wide = in_part and spec.ranks > 1 and spec.precision != "fp8"
    if not drawn_wide:
        model.cast(dtype)
    meshes = build_meshes(spec)
    if meshes.tensor is not None:
        from fp8tune.runners.builtin.tensor_parallel import split

        split(model, meshes.tensor, spec)
    built()
    counts = {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "linears": sum(isinstance(m, nn.Linear) for m in model.modules()),
        "float8_linears": to_float8(model, spec),
        "checkpointed": checkpoint(model, spec),
    }
    inductor.emulate_precision_casts = spec.rounds_as_eager
    if spec.compile and spec.compiles_blocks:
        compile_blocks(model)
    if meshes.shards is not None:
        shard(model, meshes.shards, spec)
    if in_part:
        model.to_empty(device=spec.device)
        model.init_weights(spec)
    if drawn_wide:
        model.cast(dtype)
    if spec.compile and not spec.compiles_blocks:
        return torch.compile(model), counts  # type: ignore[return-value]
    return model, counts
