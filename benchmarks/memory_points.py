"""The published peaks of ``memory_points.toml`` as jobs that the facts speak of."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.facts import FACTS
from fp8tune.job import Job, Target, vocabulary
from fp8tune.trainers.trainer import trainer

DATA: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)

DECODER = {
    "ffn_matrices": 3,
    "moe_layers": 0,
    "experts": 0,
    "shared_experts": 0,
    "expert_size": 0,
    "ac": "full",
    "compile": True,
    "precision": "bf16",
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
    "kept_gradient_bytes": 4,
    "accumulated_gradient_bytes": 0,
    "unsharded_gradient_bytes": 0,
    "init_bytes": 0,
    "gathered_bytes": 8,
    "cross_bytes": 0,
    "router_bytes": 0,
    "spare_bytes": 0,
}
"""Fields that torchtitan and prime-rl share: fp32 weights, gradients and moments.

They report the allocator's reserve, in which gradients have their place once they have
been; so they count at every instant.
"""


class Point(NamedTuple):
    """A published run: its job and the most memory it had, 0 if it ran out [GiB]."""

    name: str
    group: str
    job: Job
    measured: float
    source: str
    note: str


def points() -> list[Point]:
    """Every published run."""
    return [*map(_config, DATA["config"]), *map(_fields, DATA["fields"])]


def _config(row: dict[str, Any]) -> Point:
    """A run of KempnerForge, on the H200 GPUs of all its reports."""
    values: dict[str, dict[str, Any]] = {}
    for key, value in (DATA["model"][row["model"]] | row["keys"]).items():
        section, _, name = key.partition(".")
        values.setdefault(section, {})[name] = value
    known = trainer("kempnerforge")
    loaded = known.load(values)
    if loaded.faults:
        raise ValueError(f"{row['name']}: {loaded.faults[0]}")
    return _point(row, known.job(loaded, Target("h200", row["gpus"])))


def _fields(row: dict[str, Any]) -> Point:
    """A run of a trainer that has no adapter, by its fields."""
    fields = DECODER | row["job"]
    layers = fields["layers"]
    fields |= {"stage_layers": layers, "dense_ffn_layers": layers, "head_bytes": 0}
    words = vocabulary(frozenset(fields), {}, FACTS)
    root = Job(words, fields, set(), Target())["params.root"]
    fields["head_bytes"] = root * row["root_bytes"] / fields["head_tokens"]
    return _point(row, Job(words, fields, set(), Target()))


def _point(row: dict[str, Any], job: Job) -> Point:
    return Point(
        row["name"],
        row["group"],
        job,
        row["measured"],
        row["source"],
        row.get("note", ""),
    )
