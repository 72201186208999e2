"""The ranks of a trial: their process group, their meshes, and what they tell another.

A trial of one process is rank 0, alone or of simulated ranks; then the functions here
return what they are given.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from fp8tune.runners.builtin.launch import STORE_FD
from fp8tune.runners.builtin.spec import Spec

JOIN_S = 300.0
"""How long a rank waits for the others to import torch [s]."""
FOREVER = timedelta(days=7)
"""Timeout of collectives: the parent's deadlines end a trial."""


class Meshes(NamedTuple):
    """The ranks that share one copy of the weights, and those of tensor parallelism.

    ``None`` where a run has no such dimension.
    """

    shards: DeviceMesh | None = None
    tensor: DeviceMesh | None = None


def join(device: str) -> None:
    """Join the other ranks of a trial, as the launcher's environment says.

    Gloo is for the CPU, and on GPUs for what the ranks tell another; NCCL for the rest.
    """
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    descriptor = os.environ.get(STORE_FD)
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        count,
        is_master=rank == 0,
        timeout=timedelta(seconds=JOIN_S),
        wait_for_workers=False,
        master_listen_fd=int(descriptor) if descriptor else None,
    )
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=count, timeout=FOREVER
    )


def build_meshes(spec: Spec) -> Meshes:
    """Return the meshes of a trial, of a fake process group if ranks are simulated.

    Neighbours are of one tensor-parallel group, as in both trainers.
    """
    if spec.ranks < 2:
        return Meshes(_simulated(spec)) if spec.dp_shard > 1 else Meshes()
    names = ("dp_shard", "tp") if spec.tp > 1 else ("dp_shard",)
    shape = (spec.dp_shard, spec.tp)[: len(names)]
    mesh = init_device_mesh(spec.device, shape, mesh_dim_names=names)
    sharded = spec.dp_shard > 1 or spec.shards_over_one
    return Meshes(
        mesh["dp_shard"] if sharded else None, mesh["tp"] if spec.tp > 1 else None
    )


def _simulated(spec: Spec) -> DeviceMesh:
    """Rank 0 of a group whose other ranks do not exist."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=spec.dp_shard, store=FakeStore())
    return init_device_mesh(spec.device, (spec.dp_shard,), mesh_dim_names=("dp_shard",))


def data_share(spec: Spec) -> tuple[int, int]:
    """Return which part of the data this rank trains on, and of how many.

    The ranks of a tensor-parallel group train on the same.
    """
    if spec.ranks < 2:
        return 0, 1
    return dist.get_rank() // spec.tp, spec.dp_shard


def of_rank_0(values: Sequence[float], spec: Spec) -> list[float]:
    """Return rank 0's values on all ranks."""
    return gathered(values, spec)[0]


def gathered(values: Sequence[float], spec: Spec) -> list[list[float]]:
    """Return the values of all ranks, which give equally many."""
    if spec.ranks < 2:
        return [list(values)]
    own = torch.tensor(values, dtype=torch.float64)
    every = [torch.empty_like(own) for _ in range(spec.ranks)]
    dist.all_gather(every, own)
    return [one.tolist() for one in every]
