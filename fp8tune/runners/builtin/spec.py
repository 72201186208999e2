"""What a trial builds and runs: the fields of a job that a training step needs.

Plain values, because the worker is another process and gets them as JSON.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Spec(NamedTuple):
    """One trial; the names are the job's (``fp8tune explain NAME``)."""

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    ffn_matrices: int
    activation: str
    vocab_size: int
    max_seq_len: int
    rope_theta: float
    norm_eps: float
    qk_norm: bool
    init_std: float
    tied_embeddings: bool
    experts: int
    top_k: int
    moe_every: int
    expert_ffn_size: int
    shared_expert: bool

    precision: str
    fp8_recipe: str
    fp8_all_gather: bool
    fp8_skips: list[str]
    ac: str
    ac_attention_only: bool
    compile: bool
    loss: str
    loss_chunk: int

    micro_batch: int
    seq_len: int
    grad_accum: int
    learning_rate: float
    weight_decay: float
    betas: list[float]
    eps: float
    clip_norm: float
    warmup_steps: int

    device: str
    dp_shard: int = 1
    data_files: list[str] = []
    seed: int = 42
    min_steps: int = 12
    max_steps: int = 40
    warm_steps: int = 3
    precise: float = 0.005

    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step on this rank."""
        return self.micro_batch * self.seq_len * self.grad_accum


def from_json(data: dict[str, Any]) -> Spec:
    """A spec as the parent process sent it."""
    return Spec(**data)
