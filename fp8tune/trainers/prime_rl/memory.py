"""What one rank of prime-rl holds, per parameter and per token.

For dense models with full activation checkpointing, trained whole. Bytes per token are
closed forms of what the blocks and the loss keep. Published runs of prime-rl print
what the allocator had reserved (``python -m benchmarks.prime_rl.published``); most are
of January 2026, before offload became the default, and before the loss that computes
logits in chunks was used for SFT.

Source: prime-rl 0.8.1.dev67, trainer/model.py (setup_fsdp, apply_ac),
layers/lm_head.py, optim/state_offload.py, utils/act_offloading.py.
"""

from __future__ import annotations

from typing import Any

from fp8tune.facts.memory import GIB
from fp8tune.job import Job, Unknown, Words

BF16, FP32 = 2, 4
CHUNK = 8192
"""Columns of logits that the chunked loss computes at a time [vocabulary entries]."""
CHUNK_BYTES = 18
"""Bytes per logit of a chunk in its backward pass: in bf16, and four times in fp32."""

BANDS = {"chunked loss": (0.10, 0.17), "whole logits": (0.10, 0.05)}
"""How far below and above the estimate a peak may lie, by ``estimate_family``.

The worst published run of each, rounded up. No published run is below the estimate
with a chunked loss.
"""


def dense_only(moe_layers: int, ep: int, plain_model: bool) -> bool:
    """True for dense models that are trained whole; unknown for others."""
    if moe_layers or ep > 1:
        raise Unknown("memory.experts")
    return plain_model


def block_tokens(micro_batch: int, seq_len: int, cp: int) -> int:
    """Tokens of one micro-batch on a rank."""
    return micro_batch * seq_len // cp


def state_bytes(optimizer: str, weight_bytes: int) -> int:
    """Bytes per parameter of the optimizer's state: AdamW's two moments."""
    if optimizer != "adamw":
        raise Unknown("optimizer_bytes")
    return 2 * weight_bytes


def optimizer_bytes(state_bytes: int, optimizer_offloaded: bool) -> int:
    """The same as far as it is on the GPU for the whole step."""
    return 0 if optimizer_offloaded else state_bytes


def optimizer_temporary_bytes(
    state_bytes: int,
    params_rank: float,
    params_embedding: int,
    shards: int,
    optimizer_offloaded: bool,
    full_offload: Any = None,
) -> float:
    """Bytes that a step allocates.

    State that lives in host memory comes back as a whole, and AdamW is not fused then:
    it updates one parameter after the other, with two temporaries of its size.
    """
    if full_offload is not None:
        raise Unknown("optimizer_temporary_bytes", 0)
    if not optimizer_offloaded:
        return 0
    return (state_bytes * params_rank + 2 * FP32 * params_embedding) / shards


def accumulated_gradient_bytes(
    gradient_bytes: int, grad_accum: int | None = None
) -> int:
    """Bytes per parameter of summed gradients that exist in the next forward pass.

    RL steps have several micro-batches as a rule, so an unknown number counts as that.
    """
    return 0 if grad_accum == 1 else gradient_bytes


def unsharded_gradient_bytes() -> int:
    """Bytes per parameter of gradients that are summed unsharded: none."""
    return 0


def gathered_bytes() -> float:
    """Bytes per parameter of a block that FSDP holds in its backward pass.

    Weights of two blocks in bf16, and a gradient in bf16 that is reduced.
    """
    return 3 * BF16


def loss_chunk(fused_head: Any) -> int:
    """Tokens of which the loss computes logits at a time; 0 for all."""
    return 0 if fused_head == "disabled" else int(fused_head)


def logit_bytes(loss_chunk: int, head_tokens: int, vocab_size: int) -> float:
    """Bytes per token and vocabulary entry in the backward pass of the loss.

    All logits: in bf16, and in fp32 they, their log-probabilities and two gradients. In
    chunks the same of a few columns.
    """
    share = 1.0
    if loss_chunk:
        rows, columns = min(loss_chunk, head_tokens), min(CHUNK, vocab_size)
        share = rows * columns / (head_tokens * vocab_size)
    return CHUNK_BYTES * share


def kept_bytes(
    ac_applied: str,
    hidden_size: int,
    ffn_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    qk_norm: bool,
    dense_only: bool,
    compile: bool,  # noqa: A002
) -> tuple[float, float]:
    """Bytes per token that a block keeps under full AC, and has in its backward pass.

    It keeps its input. Computed again it has the inputs of all linears, queries, keys
    and values before and after their norms, and of the FFN three gradients too.
    """
    if not dense_only or ac_applied != "full" or not compile:
        raise Unknown("activation_bytes.full", (BF16 * hidden_size, 0.0))
    queries, pairs = heads * head_dim, 2 * kv_heads * head_dim
    norms = queries + pairs / 2 if qk_norm else 0
    whole = BF16 * (4 * hidden_size + 2 * queries + pairs + norms + 7 * ffn_size)
    return BF16 * hidden_size, whole + FP32 * heads


def activation_bytes(kept_bytes: tuple[float, float], ac_offload: Any = None) -> float:
    """Bytes per token that one block keeps on the GPU; offloaded ones leave it."""
    return kept_bytes[0] if ac_offload is None else 0.0


def recompute_bytes(
    kept_bytes: tuple[float, float], precision: str, hidden_size: int, ffn_size: int
) -> float:
    """Bytes per token of one block in its backward pass, beyond what it kept.

    FP8 saves nothing: linears keep bf16, and one at a time casts its input and the
    gradient of its output.
    """
    casts = hidden_size + ffn_size if precision == "fp8" else 0
    return kept_bytes[1] + casts


def offload_default(job: Job) -> bool:
    """Whether offload is on only because the file does not turn it off."""
    offloads = job["ac_offload"] is not None and job["state_offload"]
    return offloads and not (job.writes("ac_offload") or job.writes("state_offload"))


def without_offload_gib(job: Job) -> float:
    """Upper end of the peak's band with activations and optimizer on the GPU [GiB]."""
    changes = {"ac_offload": None, "state_offload": False}
    return float(job.with_values(changes)["memory.high_gib"])


def offloaded_gb(block_tokens: int, layers: int, hidden_size: int) -> float:
    """Activations that a micro-batch moves to the host and back [GB]."""
    return 2 * BF16 * block_tokens * layers * hidden_size / 1e9


def offloaded_state_gb(state_bytes: int, params_rank: float, shards: int) -> float:
    """Optimizer state that a step moves from the host and back [GB]."""
    return 2 * state_bytes * params_rank / shards / 1e9


def memory_queued_gib() -> float:
    """Memory of a pipeline for other micro-batches: there is no pipeline [GiB]."""
    return 0.0


def memory_late_gradients_gib(
    params_root: float,
    params_first_block: float,
    gradient_bytes: int,
    shards: int,
    memory_gradients_gib: float,
    memory_reduced_gradients_gib: float,
) -> float:
    """Gradients in the backward pass of the first block [GiB].

    All but those of the last two blocks and of the tables are reduced. Summed ones are
    there from the start.
    """
    missing = (params_root + 2 * params_first_block) * gradient_bytes / shards
    return max(memory_reduced_gradients_gib - missing / GIB, memory_gradients_gib)


def memory_embedding_gib(
    params_root: float,
    params_embedding: int,
    params_tied: bool,
    memory_state_gib: float,
    memory_other_gradients_gib: float,
    memory_gradients_gib: float,
) -> float:
    """Embedding's backward pass [GiB].

    Its weight and its gradient in bf16, the head's gradient that is added to it where
    both are one weight, and the copy in fp32 that is reduced.
    """
    tables = BF16 * (params_root + params_embedding * (1 + params_tied))
    whole = (tables + FP32 * params_embedding) / GIB
    held = max(memory_other_gradients_gib, memory_gradients_gib)
    return memory_state_gib + held + whole


def head_bytes(
    hidden_size: int, params_root: float, params_embedding: int, head_tokens: int
) -> float:
    """Bytes per token of final norm and head in the loss.

    The hidden states before and after the norm and their gradient, in bf16, and the
    gathered tables with the gradient of the head.
    """
    tables = BF16 * (params_root + params_embedding)
    return 3 * BF16 * hidden_size + tables / head_tokens


def estimate_family(loss_chunk: int) -> str:
    """The group of published runs from which the estimate's error is taken."""
    return Words("chunked loss" if loss_chunk else "whole logits")


def memory_low_gib(memory_peak_gib: float, estimate_family: str) -> float:
    """Lower end of the peak's band, by the errors of published runs [GiB]."""
    return memory_peak_gib * (1 - BANDS[estimate_family][0])


def memory_high_gib(memory_peak_gib: float, estimate_family: str) -> float:
    """Upper end of the peak's band, by the errors of published runs [GiB]."""
    return memory_peak_gib * (1 + BANDS[estimate_family][1])
