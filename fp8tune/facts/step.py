"""Tokens and learning rate of an optimizer step."""

from __future__ import annotations

PEAKS = (
    (5e9, 3e-3),
    (1e10, 2e-3),
    (2.5e10, 9e-4),
    (5e10, 6e-4),
    (1.5e11, 3.2e-4),
    (float("inf"), 2.2e-4),
)
"""Highest published peaks of AdamW's learning rate for models below so many parameters.

Each is of a run of that size: see ``published_peak``.
"""

LLAMAS = ((2.5e10, 3e-4), (1.5e11, 1.5e-4), (float("inf"), 8e-5))
"""Peaks of the Llama models below so many parameters."""


def warmup_peak(warmup_steps: int, max_steps: int) -> float:
    """Highest share of the peak learning rate that the warmup reaches, at most 1.

    Linear warmup applies step / warmup_steps at steps 0 .. max_steps - 1. Source: torch
    LambdaLR as used by KempnerForge training/scheduler.py.
    """
    return min(1.0, (max_steps - 1) / warmup_steps) if warmup_steps else 1.0


def ranks(dp_replicate: int, dp_shard: int) -> int:
    """Data-parallel ranks: ranks with different sequences."""
    return dp_replicate * dp_shard


def sequences(micro_batch: int, grad_accum: int, step_ranks: int) -> int:
    """Sequences of one optimizer step (global batch)."""
    return micro_batch * grad_accum * step_ranks


def tokens(step_sequences: int, seq_len: int) -> int:
    """Tokens of one optimizer step [tokens]."""
    return step_sequences * seq_len


def published_peak(params_decoder: int) -> float:
    """Highest published peak of AdamW's learning rate for models of this size.

    3e-3 up to 2.8B and 2e-3 for 7B (DCLM), 9e-4 for 13B and 6e-4 for 32B (OLMo 2),
    3.2e-4 for 67B (DeepSeek LLM), 2.2e-4 above (DeepSeek-V3). Sources:
    https://github.com/mlfoundations/dclm/tree/main/training/configs,
    https://arxiv.org/abs/2501.00656, https://arxiv.org/abs/2401.02954,
    https://arxiv.org/abs/2412.19437.
    """
    return next(peak for most, peak in PEAKS if params_decoder < most)


def usual_peak(params_decoder: int) -> float:
    """Peak learning rate of the Llama of this size, trained with AdamW.

    3e-4 for 7B, 8B and 13B, 1.5e-4 for 33B to 70B, 8e-5 for 405B. Sources:
    https://arxiv.org/abs/2302.13971, https://arxiv.org/abs/2407.21783.
    """
    return next(peak for most, peak in LLAMAS if params_decoder < most)
