"""The spec of a trial: the fields of a job that a training step needs.

All values are plain, because the worker process gets them as JSON.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fp8tune.job import Job, Unknown
from fp8tune.runners.sampling import Sampling


class Spec(NamedTuple):
    """One trial; the names are the job's (``fp8tune explain NAME``).

    A trainer need not give those that have a default, from ``init`` to
    ``averages_losses``. With ``ranks`` > 1 so many processes train it together; with 1
    it is alone, and of ``dp_shard`` ranks it is rank 0. ``seed`` is the seed of the
    initial weights, ``data_seed`` of synthetic data and of the order of the user's.
    With ``steps`` > 0 it is a loss run; with 0 the trial measures speed.
    """

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
    qk_norm_eps: float
    init_std: float
    sdpa_backend: str
    tied_embeddings: bool
    experts: int
    top_k: int
    moe_every: int
    expert_size: int
    shared_experts: int
    balance_weight: float

    precision: str
    fp8_recipe: str
    fp8_all_gather: bool
    weight_bytes: int
    ac: str
    ac_attention_only: bool
    compile: bool
    reduces_each_micro_batch: bool
    loss: str
    loss_chunk: int
    held_logit_bytes: float

    micro_batch: int
    seq_len: int
    grad_accum: int
    learning_rates: list[float]
    weight_decay: float
    betas: list[float]
    eps: float
    fused: bool
    clip_norm: float

    device: str

    init: str = "gpt"
    torch_norms: bool = False
    rotary: str = "halves"
    repeats_kv: bool = True
    bf16_linears: list[str] = []
    fp8_auto_filter: bool = False
    fp8_scales_at_once: bool = False
    ac_saves: list[str] = []
    ac_budget: float = 1.0
    ac_keeps_rng: bool = True
    ac_stops_early: bool = True
    compiles_blocks: bool = False
    rounds_as_eager: bool = False
    tables_apart: bool = False
    reshards: str = "always"
    loss_compiled: bool = False
    decays_norms: bool = False
    tp: int = 1
    sequence_parallel: bool = False
    gathers_once: bool = False
    splits_embedding: bool = False
    loss_parallel: bool = False
    shards_over_one: bool = False
    builds_whole: bool = False
    averages_losses: bool = False

    dp_shard: int = 1
    ranks: int = 1
    data_files: list[str] = []
    reads_ahead: bool = False
    seed: int = 42
    data_seed: int = 42
    steps: int = 0
    sampling: Sampling = Sampling()
    float8_matmuls: int = 0

    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step on this rank."""
        return self.micro_batch * self.seq_len * self.grad_accum

    @property
    def autocast(self) -> bool:
        """Whether fp32 weights are cast where they are used, as FSDP does not."""
        alone = self.dp_shard < 2 and self.tp < 2
        return self.weight_bytes > 2 and self.precision != "fp32" and alone

    @property
    def synthetic_data(self) -> bool:
        """Whether it trains on synthetic data, not on the config's."""
        return not self.data_files


GIVEN = ("device", "dp_shard", "ranks", "seed", "sampling")
"""Fields that the runner sets."""
OURS = ("float8_matmuls", "steps")
"""How far a trial goes, and on what; all others are fields of the job."""


class CannotBuild(Exception):
    """The built-in trial cannot represent this run; the message says why."""


def from_job(job: Job, **given: Any) -> Spec:
    """Return the spec of a job; raises ``CannotBuild``."""
    try:
        refusal = job["trial_refusal"]
        if not refusal and given.get("ranks", 1) < 2 and job["tp"] > 1:
            refusal = f"tensor parallelism of {job['tp']} by one rank"
        if refusal:
            raise CannotBuild(f"a trial cannot represent {refusal}")
        names = [
            name
            for name in Spec._fields
            if name not in (*GIVEN, *OURS)
            and (name not in Spec._field_defaults or job.words.knows(name))
        ]
        return Spec(**{name: job[name] for name in names}, **given)
    except Unknown as missing:
        raise CannotBuild(f"{missing} is not known from the config") from None


def from_json(data: dict[str, Any]) -> Spec:
    """Return the spec that the parent process sent."""
    return Spec(**{**data, "sampling": Sampling(*data["sampling"])})
