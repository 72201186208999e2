"""Fields of a job that follow from others, for a trainer that is described by data.

What the trainer's file says comes first. A degree that it does not name is 1, and a
model without a number of experts has none. Nothing else has a default: what the file
does not say is unknown.
"""

from __future__ import annotations

from fp8tune.facts.gaps import UNSAID
from fp8tune.job import Unknown, ranks_left


def grad_accum() -> int:
    """Micro-batches per optimizer step: one, if no key says it."""
    return 1


def reduces_each_micro_batch(grad_accum: int) -> bool:
    """Whether FSDP reduces gradients after each micro-batch; all the same with one."""
    if grad_accum > 1:
        raise Unknown("reduces_each_micro_batch")
    return True


def cp() -> int:
    """Context-parallel degree: none, if no key says it."""
    return 1


def ep() -> int:
    """Expert-parallel degree: none, if no key says it."""
    return 1


def dp_replicate() -> int:
    """Replicas of the sharded group: one, if no key says it."""
    return 1


def dp_shard(world_size: int, dp_replicate: int, tp: int, pp: int, cp: int) -> int:
    """FSDP shards: all GPUs that the other degrees leave."""
    return ranks_left(world_size, dp_replicate, tp, pp, cp)


def declared_gpus(
    dp_shard: int, dp_replicate: int, tp: int, pp: int, cp: int, ep: int
) -> int:
    """Number of GPUs that the degrees multiply to; unknown with EP."""
    if ep > 1:
        raise Unknown("world_size")
    return dp_shard * dp_replicate * tp * pp * cp


def shards(dp_shard: int, cp: int, degrees_fit: bool) -> int:
    """Ranks that share one copy of the weights; unknown if the degrees do not fit."""
    if not degrees_fit:
        raise Unknown("shards.product")
    if cp > 1:
        raise Unknown("shards.cp")
    return dp_shard


def sharded(shards: int) -> bool:
    """Whether FSDP2 wraps the model: if it has several shards."""
    return shards > 1


def experts() -> int:
    """Experts per MoE block: none, if no key says it."""
    return 0


def shared_experts() -> int:
    """Experts that process every token: none, if no key says it."""
    return 0


def expert_size() -> int:
    """Width of one expert's FFN: there is none."""
    return 0


def dense_ffn_layers(layers: int, experts: int) -> int:
    """Blocks with a dense FFN; unknown with experts."""
    if experts:
        raise Unknown("memory.experts")
    return layers


def kv_heads(heads: int) -> int:
    """Key/value heads: one for each query head, if no key says it."""
    return heads


def head_dim(hidden_size: int, heads: int) -> int:
    """Size of one attention head."""
    return hidden_size // heads


def ac_modes() -> tuple[str, ...]:
    """AC modes whose memory is known."""
    return ("none", "full")


def fp8_tokens(micro_batch: int, seq_len: int, cp: int) -> tuple[int, ...]:
    """M of the FP8 linears on one rank, one text stream [tokens]."""
    if cp > 1:
        raise Unknown("speed.cp")
    return (micro_batch * seq_len,)


def sequence_parallel(tp: int) -> bool:
    """Whether TP also splits norms and residual stream; with TP the file says it."""
    if tp > 1:
        raise Unknown(UNSAID + "sequence_parallel")
    return False


def head_shards(tp: int, sequence_parallel: bool) -> int:
    """Ranks over which the output head is split."""
    return tp if sequence_parallel else 1


def trial_refusal() -> str:
    """Why the built-in trial would differ from this run."""
    return "a trainer that only a file describes"
