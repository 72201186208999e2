"""What one rank holds, for a trainer that is described by data.

Of dense decoders that FSDP2 shards, with bf16 compute, full AC and Adam, as any trainer
with torch's own FSDP2 has them. A file may say each of these fields otherwise. What it
does not say and FSDP2 does not decide, such as ``weight_bytes``, is unknown.

Source: torch.distributed.fsdp of torch 2.10; the bytes per token are those that full AC
keeps and computes again (benchmarks/results/activation_bytes.json).
"""

from __future__ import annotations

from fp8tune.job import Job, Unknown, known

BF16 = 2

BAND = 0.2
"""How far from the estimate a peak may lie, as a share of it.

No run of such a trainer is published. It is twice as far as most of those of other
trainers (docs/accuracy.md).
"""


def compute_bytes(precision: str) -> int:
    """Bytes of a value in compute; inputs and outputs of FP8 linears are bf16."""
    sizes = {"bf16": 2, "fp8": 2, "fp16": 2, "fp32": 4}
    return known("compute_bytes", sizes.get(precision))


def block_tokens(micro_batch: int, seq_len: int, cp: int) -> int:
    """Tokens of one micro-batch in the residual stream."""
    if cp > 1:
        raise Unknown("shards.cp")
    return micro_batch * seq_len


def accumulated_gradient_bytes(
    grad_accum: int, gradient_bytes: int, reduces_each_micro_batch: bool
) -> int:
    """Bytes per parameter of summed gradients that FSDP has reduced."""
    return gradient_bytes if grad_accum > 1 and reduces_each_micro_batch else 0


def unsharded_gradient_bytes(
    grad_accum: int, gradient_bytes: int, sharded: bool, reduces_each_micro_batch: bool
) -> int:
    """Bytes per parameter of summed gradients that FSDP has not reduced: fp32."""
    if grad_accum == 1:
        return 0
    if not sharded:
        return gradient_bytes
    return 0 if reduces_each_micro_batch else 4


def gathered_bytes(sharded: bool, tp: int) -> float:
    """Bytes per parameter of a block that FSDP2 holds in its backward pass.

    Weights of two blocks in bf16, and a gradient in bf16 that is reduced.
    """
    return 8 / tp if sharded else 0


def activation_bytes(ac_applied: str, hidden_size: int, compute_bytes: int) -> int:
    """Bytes per token that one block keeps: with full AC its input."""
    inputs = compute_bytes * hidden_size
    if ac_applied != "full":
        raise Unknown("activation_bytes.described", inputs)
    return inputs


def recompute_bytes(
    hidden_size: int,
    ffn_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    compute_bytes: int,
    tp: int,
    activation_bytes: int,
) -> float:
    """Bytes per token of one block in its backward pass, beyond what it kept."""
    sizes = 4 * hidden_size + 2 * (heads + kv_heads) * head_dim + 4 * ffn_size
    return (compute_bytes * sizes + 4 * heads) / tp - activation_bytes


def logit_bytes(head_shards: int) -> float:
    """Bytes per token and vocabulary entry in the loss: eager, in fp32.

    Log-probabilities and two gradients, of bf16 logits.
    """
    return 12 / head_shards


def head_bytes(
    params_embedding: int,
    params_block: float,
    params_rank: float,
    gradient_bytes: int,
    grad_accum: int,
    head_tokens: int,
    shards: int,
    sharded: bool,
    tp: int,
) -> float:
    """Bytes per token of the table that FSDP2 has gathered, and of what it keeps.

    The allocator keeps the copies from which table and last block were gathered, and
    the place of the last step's gradients if none are summed.
    """
    old = gradient_bytes * params_rank / shards if grad_accum == 1 else 0
    if not sharded:
        return old / head_tokens
    table, block = BF16 * params_embedding / tp, BF16 * params_block / tp
    return (old + 2 * table + table * tp / shards + block) / head_tokens


def estimate_family(job: Job) -> str:
    """The group of measured runs: those of this trainer; its error is ``BAND``."""
    return f"trainer {job.words.trainer}"


def memory_low_gib(memory_peak_gib: float) -> float:
    """Lower end of the peak's band [GiB]."""
    return memory_peak_gib * (1 - BAND)


def memory_high_gib(memory_peak_gib: float) -> float:
    """Upper end of the peak's band [GiB]."""
    return memory_peak_gib * (1 + BAND)
