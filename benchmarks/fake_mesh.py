"""Rank 0 of a world of any size, alone on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

PIECE = 1 << 14
"""Numbers of a gradient that are added at once."""


def build_mesh(config: Any, world_size: int) -> Any:
    """The trainer's device mesh, on the CPU and without a network."""
    distributed: Any = import_module("torch.distributed")
    meshes: Any = import_module("torch.distributed.device_mesh")
    fake: Any = import_module("torch.testing._internal.distributed.fake_pg")
    if distributed.is_initialized():
        distributed.destroy_process_group()
    if world_size == 1:
        return None
    distributed.init_process_group(
        "fake", rank=0, world_size=world_size, store=fake.FakeStore()
    )
    sizes = config.distributed.resolve(world_size)
    keep_one = sizes.tp > 1 or sizes.ep > 1
    dims = {
        name: getattr(sizes, name)
        for name in ("pp", "dp_replicate", "dp_shard", "ep", "tp")
        if getattr(sizes, name) > 1 or (name == "dp_shard" and keep_one)
    }
    shape = tuple(dims.values())
    return meshes.init_device_mesh("cpu", shape, mesh_dim_names=tuple(dims))


def collapse_routing() -> None:
    """Send every token to the first experts, as a fresh model does.

    With expert parallelism the ranks of a group process the same batch, so each
    receives from every other what it sends to itself.
    """
    torch: Any = import_module("torch")
    module: Any = import_module("kempnerforge.model.router")
    expert_parallel: Any = import_module("kempnerforge.distributed.expert_parallel")

    def forward(self: Any, tokens: Any) -> Any:
        weights, indices = self.routed(tokens)
        first = torch.arange(self.top_k, device=tokens.device)
        return weights, first.expand(*indices.shape).contiguous()

    def all_to_all(out: Any, given: Any, **options: Any) -> None:
        if not out.numel():
            return
        own = given[: options.get("input_split_sizes", [1])[0]]
        repeats = -(-out.shape[0] // own.shape[0])
        out.copy_(own.repeat(repeats, *[1] * (own.ndim - 1))[: out.shape[0]])

    for router in (module.SoftmaxTopKRouter, module.SigmoidTopKRouter):
        router.routed = getattr(router, "routed", router.forward)
        router.forward = forward
    expert_parallel.dist = _Patched(expert_parallel.dist, all_to_all)


def reduce_without_temporaries() -> None:
    """Let FSDP add up gradients and fill the buffer for them as a GPU's kernels do.

    Those of the CPU pad gradients in copies of their own first, and convert them whole.
    """
    fully_shard = "torch.distributed.fsdp._fully_shard"
    fsdp: Any = import_module(f"{fully_shard}._fsdp_collectives")
    parameter: Any = import_module(f"{fully_shard}._fsdp_param").FSDPParam

    def copy_in(gradients: Any, buffer: Any, ranks: int) -> None:
        rows = buffer.view(ranks, -1)
        first = 0
        for gradient in gradients:
            each = -(-gradient.shape[0] // ranks)
            size = each * gradient[0].numel()
            for row, part in zip(rows, gradient.split(each), strict=False):
                row[first : first + part.numel()].view(part.shape).copy_(part)
            first += size

    def accumulate(self: Any) -> None:
        kept, new = self.unsharded_accumulated_grad, self.unsharded_param.grad
        if kept is None or new is None:
            return
        if hasattr(kept, "to_local"):
            kept, new = kept.to_local(), new.to_local()
        for sums, more in zip(*map(_pieces, (kept, new)), strict=True):
            sums.add_(more)
        self.unsharded_param.grad = None

    fsdp.foreach_reduce_scatter_copy_in = copy_in
    parameter.accumulate_unsharded_grad_if_needed = accumulate


def _pieces(gradient: Any) -> Any:
    """Views of a few kilobytes: what converts them is small, and they are not many."""
    return gradient.view(-1).split(PIECE)


class _Patched:
    """``torch.distributed`` with another all-to-all."""

    def __init__(self, module: Any, all_to_all_single: Any) -> None:
        self._module = module
        self.all_to_all_single = all_to_all_single

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
