"""FSDP2 collectives for rank 0 without other ranks.

They return what real collectives would return if every rank held this rank's share of
the weights and saw its batches. torch's fake process group does not do this: before
2.13 it does not write the output of a reduce-scatter, and it fills that of an
all-gather with one copy kernel per rank, while NCCL launches one. Buffers are allocated
as for the real collectives, so memory is the same.
"""

from __future__ import annotations

from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllocMixin


class RepeatedShare(DefaultAllocMixin, AllGather):
    """All-gather that repeats this rank's share for every other rank."""

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: ProcessGroup,
        async_op: bool = False,  # noqa: ARG002
    ) -> None:
        """Fill the rows of the other ranks; FSDP2 has put the share into the first."""
        output_tensor.view(group.size(), -1)[1:].copy_(input_tensor)


class OwnShare(DefaultAllocMixin, ReduceScatter):
    """Reduce-scatter of equal gradients on all ranks: the average is this rank's."""

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: ProcessGroup,  # noqa: ARG002
        op: object,  # noqa: ARG002
        async_op: bool = False,  # noqa: ARG002
    ) -> None:
        """Copy the first part of the gradients, which belongs to rank 0."""
        output_tensor.copy_(input_tensor[: output_tensor.numel()])
