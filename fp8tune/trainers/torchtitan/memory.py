"""What one rank of torchtitan holds, per parameter and per token.

For dense models with AC; without AC nothing was measured. Bytes per token are closed
forms of what AC keeps; ``python -m benchmarks.estimates`` compares with published runs,
which print what the allocator had reserved. So three parts are counted that the
allocator keeps beside the tensors: the buffers of the stream that gathers weights, the
gathered tables, and the last block, which stays whole.

Source: torchtitan 0.1.0 and 0.2.2, the parallelize module of Llama 3,
distributed/activation_checkpoint.py, components/loss.py; torch.distributed.fsdp.
"""

from __future__ import annotations

from fp8tune.job import Job, Unknown, Words
from fp8tune.trainers.torchtitan.releases import LENIENT

BF16 = 2

BANDS = {"op": (0.06, 0.06), "full": (0.06, 0.06), "TP": (0.10, 0.20)}
"""How far below and above the estimate a peak may lie, by ``estimate_family``.

The worst published run of each, rounded up; ``python -m
benchmarks.torchtitan.published`` prints them.
"""
UNSHOWN = (0.20, 0.20)
"""The same where no run is published."""


def dense_only(moe_layers: int, ep: int) -> bool:
    """True for dense models; unknown for others, whose memory was not measured."""
    if moe_layers or ep > 1:
        raise Unknown("memory.experts")
    return True


def block_tokens(micro_batch: int, seq_len: int, cp: int, attention_kind: str) -> int:
    """Tokens of one micro-batch in the residual stream.

    Unknown with masks, whose memory was not measured; it comes on top.
    """
    tokens = micro_batch * seq_len // cp
    if attention_kind != "sdpa":
        raise Unknown("block_tokens.mask", tokens)
    return tokens


def reserved_gradient_bytes(grad_accum: int, gradient_bytes: int) -> int:
    """Bytes per parameter that the allocator keeps in the place of old gradients.

    None if gradients are summed: then they are still there.
    """
    return gradient_bytes if grad_accum == 1 else 0


def accumulated_gradient_bytes(grad_accum: int, gradient_bytes: int) -> int:
    """Bytes per parameter of summed gradients that exist in the next forward pass."""
    return gradient_bytes if grad_accum > 1 else 0


def unsharded_gradient_bytes(
    grad_accum: int, sharded: bool, gradient_bytes: int
) -> int:
    """Bytes per parameter of gradients that are summed unsharded.

    FSDP reduces every micro-batch. Without it accumulation was not measured.
    """
    if grad_accum > 1 and not sharded:
        raise Unknown("unsharded_gradient_bytes", gradient_bytes)
    return 0


def gathered_bytes(
    sharded: bool,
    tp: int,
    training_enable_cpu_offload: bool,
    parallelism_fsdp_reshard_after_forward: str,
) -> float:
    """Bytes per parameter of a block that FSDP holds in its backward pass.

    Weights of two blocks in bf16, and a gradient in bf16 that is reduced. Unknown where
    weights stay gathered, or are on the host.
    """
    if sharded and training_enable_cpu_offload:
        raise Unknown("memory.offload")
    if sharded and parallelism_fsdp_reshard_after_forward == "never":
        raise Unknown("memory.gathered", 8 / tp)
    return 8 / tp if sharded else 0


def logit_bytes(
    loss_compiled: bool,
    compute_bytes: int,
    tp: int,
    parallelism_disable_loss_parallel: bool,
) -> float:
    """Bytes per token and vocabulary entry in the backward pass of the loss.

    Compiled, the logits and their gradient. Eager, log-probabilities and two gradients
    in fp32; with TP the backward pass adds the exponentials.
    """
    if tp > 1 and parallelism_disable_loss_parallel:
        raise Unknown("logit_bytes.whole", 2 * compute_bytes)
    if loss_compiled:
        return 2 * compute_bytes / tp
    return (16 if tp > 1 else 12) / tp


def kept_bytes(
    ac_applied: str,
    hidden_size: int,
    ffn_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    compute_bytes: int,
    dense_only: bool,
    sharded: bool,
    compile: bool,  # noqa: A002
    layers: int,
    qk_norm: bool,
) -> tuple[float, float]:
    """Bytes per token that a block keeps, and that it has when computed again.

    Unknown without FSDP, where autocast keeps copies of the weights. Full AC keeps the
    input. Per-op AC also attention and every second product: of the
    queries, values, gate and down. Without AC a compiled block keeps what its linears
    and attention read (``benchmarks/results/torchtitan_activation_bytes.md``); norms
    of eager blocks depend on the version of torch.
    """
    if not dense_only or compute_bytes > BF16:
        raise Unknown("activation_bytes")
    least = BF16 * hidden_size, 0.0
    if not sharded:
        raise Unknown("activation_bytes.unsharded", least)
    queries, pairs = heads * head_dim, 2 * kv_heads * head_dim
    sums = 4 * heads
    whole = BF16 * (4 * hidden_size + 2 * queries + pairs + 4 * ffn_size) + sums
    saved = BF16 * (2 * hidden_size + queries + pairs / 2 + ffn_size)
    kept = {"full": BF16 * hidden_size, "op": saved + BF16 * queries + sums}
    if compile:
        kept["none"] = whole - BF16 * ffn_size + 8
    if qk_norm and ac_applied not in ("full", "op"):
        raise Unknown("activation_bytes.norm", least)
    if ac_applied in kept:
        return kept[ac_applied], whole - kept[ac_applied]
    if compile and ac_applied.startswith("every-"):
        share = every_nth(ac_applied, layers) / layers
        mean = share * kept["full"] + (1 - share) * kept["none"]
        return mean, whole - kept["full"]
    kind = "budget" if ac_applied == "memory_budget" else "eager"
    raise Unknown(f"activation_bytes.{kind}", least)


def every_nth(ac_applied: str, layers: int) -> int:
    """Blocks that are computed again where every n-th is."""
    return layers // int(ac_applied.removeprefix("every-"))


def activation_bytes(
    kept_bytes: tuple[float, float],
    tp: int,
    ac_applied: str,
    layers: int,
    gathered_inputs_bytes: float,
    saved_sums_bytes: float,
) -> float:
    """Bytes per token that one block keeps; the mean of all if not all are alike.

    Sequence parallelism splits all but the gathered inputs, which only blocks without
    AC keep, and sums that per-op AC saves.
    """
    if ac_applied.startswith("every-"):
        share = 1 - every_nth(ac_applied, layers) / layers
    else:
        share = float(ac_applied == "none")
    return kept_bytes[0] / tp + share * gathered_inputs_bytes + saved_sums_bytes


def recompute_bytes(
    kept_bytes: tuple[float, float],
    tp: int,
    ac_applied: str,
    gathered_inputs_bytes: float,
) -> float:
    """Bytes per token of one block in its backward pass, beyond what it kept."""
    gathered = gathered_inputs_bytes if ac_applied != "none" else 0
    return kept_bytes[1] / tp + gathered


def gathered_inputs_bytes(tp: int, hidden_size: int) -> float:
    """Bytes per token by which TP's gathered inputs exceed an even split, in a block.

    Those of attention and feed-forward, in bf16 (``benchmarks/results/
    torchtitan_tensor_parallel.md``).
    """
    return 2 * BF16 * hidden_size * (1 - 1 / tp)


def saved_sums_bytes(
    tp: int,
    hidden_size: int,
    ac_applied: str,
    compile: bool,  # noqa: A002
) -> float:
    """Bytes per token that per-op AC saves with TP beyond an even split.

    The product of down before ranks are summed, which is whole, and both sums. For
    eager blocks (``torchtitan_tensor_parallel.md`` there); compiled ones
    keep only what their backward pass reads, and were not measured.
    """
    if tp == 1 or ac_applied != "op" or compile:
        return 0
    return BF16 * hidden_size * (1 - 1 / tp) + 2 * BF16 * hidden_size / tp


def gathered_input_bytes(tp: int, hidden_size: int) -> int:
    """Bytes per token of the head's input with TP, until its backward pass.

    The head gathers the sequence and keeps it whole, in bf16 (``benchmarks/results/
    torchtitan_tensor_parallel.md``).
    """
    return BF16 * hidden_size if tp > 1 else 0


def head_bytes(
    trainer_version: str,
    gathered_input_bytes: int,
    params_root: float,
    params_embedding: int,
    params_block: float,
    params_rank: float,
    reserved_gradient_bytes: int,
    head_tokens: int,
    shards: int,
    sharded: bool,
    tp: int,
) -> float:
    """Bytes per token of the tables that FSDP has gathered, and of what is kept beside.

    Beside are old gradients, and with TP the gathered input of the head.
    0.1.0 gathers embedding and head together; later releases each by itself, and no
    last block stays whole. The gathered tables come from a copy of the shard.
    """
    kept = reserved_gradient_bytes * params_rank / shards / head_tokens
    kept += gathered_input_bytes
    if not sharded:
        return kept
    apart = trainer_version != LENIENT
    block = BF16 * params_block / tp
    group = BF16 * (params_embedding if apart else params_root) / tp
    cached = group * tp / shards + group + (1 if apart else 2) * block
    return kept + (group + cached) / head_tokens


def estimate_family(tp: int, ac_applied: str) -> str:
    """The group of published runs from which the estimate's error is taken.

    No run without AC, or with every n-th block computed again, is published.
    """
    shown = tp > 1 and not ac_applied.startswith(("none", "every-"))
    return Words("TP" if shown else ac_applied)


def memory_low_gib(job: Job, memory_peak_gib: float, estimate_family: str) -> float:
    """Lower end of the peak's band [GiB].

    By the errors of published runs, and without the place of the last step's gradients,
    which the allocator keeps but may give back before it runs out.
    """
    freed: float = job.with_values({"reserved_gradient_bytes": 0})["memory.peak_gib"]
    share = 1 - BANDS.get(estimate_family, UNSHOWN)[0]
    return min(freed, memory_peak_gib) * share


def memory_high_gib(memory_peak_gib: float, estimate_family: str) -> float:
    """Upper end of the peak's band, by the errors of published runs [GiB]."""
    return memory_peak_gib * (1 + BANDS.get(estimate_family, UNSHOWN)[1])
