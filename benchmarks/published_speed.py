"""The published training speeds of ``published_speed.toml`` as steps of the model."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.facts import gemm_speed
from fp8tune.facts.linears import BLOCK, Decoder, of_decoder
from fp8tune.facts.steptime import Chip, Rates, Step, seconds

DATA: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)

REPEATED = {
    "none": frozenset[str](),
    "full": frozenset(BLOCK[:-1]),
    # torchtitan's selective AC "op" saves every second matmul and attention.
    "op": frozenset(("k_proj", "o_proj", "up_proj")),
}


class Run(NamedTuple):
    """A published run: the step of one rank and what was measured.

    ``measured`` is tokens/s per GPU of a "step" row, FP8 / bf16 of a "gain" row, and
    0 where only the sign is published.
    """

    name: str
    group: str
    step: Step
    chip: Chip
    recipe: str
    gather: bool
    measured: float
    assumed: str
    source: str


def steps() -> list[Run]:
    """Runs with published bf16 tokens/s."""
    return [_step_run(row) for row in DATA["step"]]


def gains() -> list[Run]:
    """Runs with a published FP8 gain, or its sign."""
    return [
        Run(
            row["name"],
            row["group"],
            _step(row),
            _chip(row),
            row["recipe"],
            row["fp8_all_gather"],
            row.get("gain", 0.0),
            row.get("assumed", ""),
            row["source"],
        )
        for row in DATA["gain"]
    ]


def bf16_speeds() -> list[Run]:
    """The bf16 sides of the FP8 pairs, other clusters than those of ``steps``."""
    sides = {
        (row["bf16"], row["source"]): run._replace(
            group=row["chip"], measured=row["bf16"]
        )
        for row, run in zip(DATA["gain"], gains(), strict=True)
        if "bf16" in row
    }
    return list(sides.values())


def tokens_per_second(run: Run, rates: Rates) -> float:
    """Predicted bf16 tokens/s per GPU."""
    step = run.step
    return step.tokens / seconds(step, run.chip, "", rates).total / step.tp / step.pp


def gain(run: Run, rates: Rates) -> float:
    """Predicted speed in FP8 relative to bf16."""
    base = seconds(run.step, run.chip, "", rates)
    fast = seconds(run.step, run.chip, run.recipe, rates)
    if run.recipe == "tensorwise" and not run.gather:
        fast = fast._replace(communication=base.communication)
    return base.total / fast.total


def linears() -> list[tuple[float, float, str]]:
    """Rowwise table and published tensorwise speed-up of single linears, source."""
    return [
        (gemm_speed.rowwise(row["m"], row["k"], row["n"]), row["speedup"], _shape(row))
        for row in DATA["gemm"]
    ]


def _shape(row: dict[str, Any]) -> str:
    return f"{row['m']} x {row['k']} x {row['n']}"


def _step_run(row: dict[str, Any]) -> Run:
    ways = [f"tp{row['tp']}"] * (row["tp"] > 1) + [f"pp{row['pp']}"] * (row["pp"] > 1)
    ways += [f"fsdp{row['shards']}"] * (row["shards"] > 1)
    group = "pipeline" if row["pp"] > 1 else "TP" if row["tp"] > 1 else "FSDP"
    ways += [f"B{row['micro_batch']}", f"ga{row['grad_accum']}"]
    name = " ".join((row["model"], *ways))
    speed = row["tokens_per_second"] / row["gpus"]
    chip = _chip(row)
    return Run(name, group, _step(row), chip, "", False, speed, "", row["source"])


def _chip(row: dict[str, Any]) -> Chip:
    chip = DATA["chip"][row["chip"]]
    return Chip(chip["tflops"], chip["gb_per_s"])


def _step(row: dict[str, Any]) -> Step:
    shape = _decoder(DATA["model"][row["model"]])
    tokens = row["micro_batch"] * row["seq_len"]
    tp = row["tp"]
    gemms = of_decoder(
        shape,
        tokens,
        tokens,
        tp=tp,
        head_tp=tp,
        repeated=REPEATED[row["ac"]],
        fp8_head=row.get("fp8_head", False),
    )
    square = 2.0 * tokens * row["seq_len"] * shape.heads * shape.head_dim * shape.layers
    return Step(
        gemms=gemms,
        attention_flops=square / tp * (4.5 if row["ac"] == "full" else 3.5),
        tokens=tokens,
        layers=shape.layers,
        hidden_size=shape.hidden_size,
        ffn_width=shape.ffn_size // tp,
        vocab_size=shape.vocab_size,
        weights=sum(g.weights for g in gemms) + shape.vocab_size * shape.hidden_size,
        forwards=3 + (row["ac"] != "none"),
        grad_accum=row.get("grad_accum", 1),
        shards=row["shards"],
        tp=tp,
        pp=row.get("pp", 1),
        compile=row.get("compile", True),
        across_nodes=row["gpus"] > row.get("gpus_per_node", 8),
    )


def _decoder(model: dict[str, Any]) -> Decoder:
    hidden = model["hidden_size"]
    return Decoder(
        model["layers"],
        hidden,
        model["heads"],
        model["kv_heads"],
        hidden // model["heads"],
        model["ffn_size"],
        model.get("ffn_matrices", 3),
        model["vocab_size"],
        model["layers"],
    )
