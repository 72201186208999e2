"""Tokens and learning rate of an optimizer step."""

from __future__ import annotations


def warmup_peak(warmup_steps: int, max_steps: int) -> float:
    """Highest share of the peak learning rate that warmup reaches, at most 1.

    Linear warmup applies step / warmup_steps at steps 0 .. max_steps - 1.
    Source: torch LambdaLR as used by KempnerForge training/scheduler.py.
    """
    return min(1.0, (max_steps - 1) / warmup_steps) if warmup_steps else 1.0


def ranks(dp_replicate: int, dp_shard: int) -> int:
    """Data-parallel ranks: those that see different sequences."""
    return dp_replicate * dp_shard


def sequences(micro_batch: int, grad_accum: int, step_ranks: int) -> int:
    """Sequences of one optimizer step, the global batch."""
    return micro_batch * grad_accum * step_ranks


def tokens(step_sequences: int, seq_len: int) -> int:
    """Tokens of one optimizer step [tokens]."""
    return step_sequences * seq_len
