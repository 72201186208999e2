"""Published peaks of memory, and what is predicted of each.

``kempnerforge.toml`` holds configs of a trainer with an adapter, which prints what it
has allocated; ``others.toml`` shapes of trainers without one, which print what their
allocator has reserved.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.facts import FACTS
from fp8tune.facts.memory import GIB
from fp8tune.job import Job, Target, vocabulary
from fp8tune.trainers.trainer import trainer


def load(name: str) -> dict[str, Any]:
    """The data of a file beside this module."""
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


NODE = 4
"""GPUs per node in all reports of KempnerForge."""

KEMPNERFORGE = load("kempnerforge")
OTHERS = load("others")

FP32_STATE = {
    "ffn_matrices": 3,
    "moe_layers": 0,
    "moe_every": 1,
    "experts": 0,
    "shared_experts": 0,
    "expert_size": 0,
    "ac": "full",
    "compile": True,
    "precision": "bf16",
    "compute_bytes": 2,
    "grad_accum": 1,
    "tp": 1,
    "pp": 1,
    "ep": 1,
    "sharded": True,
    "head_shards": 1,
    "in_flight": 1,
    "block_copies": 1,
    "extra_parameters": 0,
    "weight_bytes": 4,
    "optimizer_bytes": 8,
    "optimizer_temporary_bytes": 0,
    "gradient_bytes": 4,
    "reduce_bytes": 0,
    "kept_gradient_bytes": 4,
    "accumulated_gradient_bytes": 0,
    "unsharded_gradient_bytes": 0,
    "init_bytes": 0,
    "cross_bytes": 0,
    "router_bytes": 0,
    "spare_bytes": 0,
    "balanced_routing": {},
    "expert_copies": 0,
    "dense_block_bytes": 0,
    "expert_block_bytes": 0,
    "expert_work": dict.fromkeys(("forward", "before", "beside", "after"), 0.0),
    "stacked_bytes": 0,
    "expert_padding": 0,
    "held_logit_bytes": 0,
    "new_logit_bytes": 0,
}
"""What trainers without an adapter share: fp32 weights, gradients and moments.

In what is reserved gradients have their place once they have been, so they count at
every instant.
"""


class Point(NamedTuple):
    """A published run: what it had at most, 0 if it ran out, and what is predicted.

    ``cached_gib`` is what the allocator had reserved beyond the job's peak, and
    ``freed_gib`` what it returns rather than run out. ``tokens_per_second`` is of all
    GPUs, 0 if not published. All memory in GiB.
    """

    name: str
    group: str
    job: Job
    measured: float
    tokens_per_second: float
    cached_gib: float
    freed_gib: float
    card_gib: float
    source: str
    note: str

    @property
    def predicted(self) -> float:
        """The peak as the trainer would print it [GiB]."""
        kept: float = self.job["memory.peak_gib"] + self.cached_gib
        reserved = kept + self.freed_gib
        return reserved if reserved <= self.card_gib else kept

    @property
    def exact(self) -> float:
        """The part of it that is arithmetic [GiB]."""
        return float(self.job["memory.exact_gib"])


def points() -> list[Point]:
    """Every published run."""
    mine = [_config(row) for row in KEMPNERFORGE["run"]]
    return mine + [_shape(row) for row in OTHERS["run"]]


def uncovered() -> list[dict[str, str]]:
    """Published peaks that nothing is predicted for: what, why, source."""
    rows: list[dict[str, str]] = KEMPNERFORGE["uncovered"] + OTHERS["uncovered"]
    return rows


def _config(row: dict[str, Any]) -> Point:
    """A run of KempnerForge, on the H200 GPUs of all its reports."""
    values: dict[str, dict[str, Any]] = {}
    for key, value in (KEMPNERFORGE["model"][row["model"]] | row["keys"]).items():
        section, _, name = key.partition(".")
        values.setdefault(section, {})[name] = value
    known = trainer("kempnerforge")
    loaded = known.load(values)
    if loaded.faults:
        raise ValueError(f"{row['name']}: {loaded.faults[0]}")
    target = Target("h200", row["gpus"], gpus_per_node=NODE)
    job = known.job(loaded, target)
    return _point(row, job, 0.0, 0.0, job["gpu.memory_gib"])


def _shape(row: dict[str, Any]) -> Point:
    """A run of a trainer without an adapter.

    Tensor parallelism splits all that a token keeps, but for the input of the head,
    which is gathered (``torchtitan_tensor_parallel.md``). Reserved beside
    the peak are: the last block, which stays whole after its forward pass; the buffers
    of another stream; and the block of the bf16 logits, too small for the fp32 tensors
    that come after.
    That stream has gathered embedding and head from a bf16 copy of the shard, and still
    holds them when it gathers the first block (torch.distributed.fsdp,
    ``_get_param_all_gather_inputs`` and ``FSDPParamGroup.wait_for_unshard``). Where the
    tables are groups of their own, one of them at a time, and no last block.
    """
    stack, model = OTHERS["stack"][row["stack"]], OTHERS["model"][row["model"]]
    tp = row.get("tp", 1)
    apart = stack.get("tables_apart", False)
    kept, whole = _block_bytes(model, row["ac"], stack.get("saves_attention", True))
    fields = (
        FP32_STATE
        | model
        | {
            "stage_layers": model["layers"],
            "dense_ffn_layers": model["layers"],
            "shards": row["shards"],
            "block_tokens": row["tokens"],
            "head_tokens": row["tokens"],
            "activation_bytes": kept / tp,
            "recompute_bytes": whole / tp,
            "gathered_bytes": 8 / tp,
            "logit_bytes": stack["logit_bytes"] / tp,
            "head_bytes": 0,
        }
    )
    found = _job(fields)
    block = 2 * found["params.block"] / tp
    table = 2 * found["params.embedding"] / tp
    group = table if apart else 2 * found["params.root"] / tp
    gathered = 2 * model["hidden_size"] if tp > 1 else 0
    fields["head_bytes"] = group / row["tokens"] + gathered
    if apart:
        fields["memory.gathered_gib"] = (2 * table + 4 * block) / GIB
    job = _job(fields)
    shard = group * tp / row["shards"]
    freed = row["tokens"] * model["vocab_size"] * stack["freed_logit_bytes"] / tp
    cached = shard + group + (1 if apart else 2) * block
    return _point(row, job, cached / GIB, freed / GIB, row["card_gib"])


def _job(fields: dict[str, Any]) -> Job:
    return Job(vocabulary(frozenset(fields), {}, FACTS), fields, set(), Target())


def _block_bytes(
    model: dict[str, Any], ac: str, saves_attention: bool
) -> tuple[float, float]:
    """Bytes per token that a block keeps, and that it has when computed again.

    Full AC keeps the input. Selective AC "op" also every second product and attention
    (torchtitan, parallelize_llama.py): of the queries, values, gate and down.
    """
    hidden, ffn = model["hidden_size"], model["ffn_size"]
    queries = model["heads"] * model["head_dim"]
    pairs = 2 * model["kv_heads"] * model["head_dim"]
    sums = 4 * model["heads"]
    whole = 2 * (4 * hidden + 2 * queries + pairs + 4 * ffn) + sums
    attention = 2 * queries + sums if saves_attention else 0
    saved = 2 * (2 * hidden + queries + pairs / 2 + ffn) + attention
    kept = 2.0 * hidden if ac == "full" else saved
    return kept, whole - kept


def _point(
    row: dict[str, Any], job: Job, cached: float, freed: float, card: float
) -> Point:
    return Point(
        row["name"],
        row["group"],
        job,
        row["peak_gib"],
        row.get("tokens_per_second", 0.0),
        cached,
        freed,
        card,
        row["source"],
        row.get("note", ""),
    )
