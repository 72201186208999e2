"""Published training speeds, of ``speeds.toml`` and ``kempnerforge.toml``, as steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.estimates import peaks
from fp8tune.facts import gemm_speed
from fp8tune.facts.linears import BLOCK, Decoder, of_decoder
from fp8tune.facts.steptime import Chip, Engine, Step, engines, seconds
from fp8tune.job import Unknown

DATA = peaks.load("speeds")
TORCHAO = engines()["torchao"]
REPEATED = {
    "none": frozenset[str](),
    "full": frozenset(BLOCK[:-1]),
    # torchtitan's selective AC "op" saves every second matmul and attention.
    "op": frozenset(("k_proj", "o_proj", "up_proj")),
}


class Run(NamedTuple):
    """A published run: the step of one rank and what was measured.

    ``measured`` is tokens/s per GPU, or FP8 / bf16 of a gain, and 0 where only its
    sign is published.
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
    model: str = ""


def steps() -> list[Run]:
    """The runs of KempnerForge that the speed model covers."""
    return [
        run
        for point in peaks.points()
        if point.tokens_per_second and (run := _of_point(point))
    ]


def uncovered() -> list[dict[str, str]]:
    """Published speeds that nothing is predicted for: what, why, source."""
    rows: list[dict[str, str]] = DATA["uncovered"]
    mine = [point for point in peaks.points() if point.tokens_per_second]
    return [
        *rows,
        *(
            {"what": f"{p.group}: {p.name}", "why": _why(p), "source": p.source}
            for p in mine
            if not _of_point(p)
        ),
    ]


def _why(point: peaks.Point) -> str:
    return "below hidden size 1024" if point.group == "small" else "dense text alone"


def _of_point(point: peaks.Point) -> Run | None:
    """The run as a step, if ``speed.tokens_per_second`` covers it."""
    job = point.job
    try:
        step, _ = job["speed.step"], job["speed.tokens_per_second"]
    except Unknown:
        return None
    group = "pipeline" if step.pp > 1 else "TP" if step.tp > 1 else "FSDP"
    return Run(
        point.name,
        f"KempnerForge, {group}",
        step,
        _chip({"chip": job["gpu"]}),
        "",
        False,
        point.tokens_per_second / job["world_size"],
        "",
        point.source,
    )


def gains() -> list[Run]:
    """Runs with a published FP8 gain, or its sign."""
    return [_run(row, row.get("gain", 0.0)) for row in DATA["gain"]]


def others() -> list[Run]:
    """Tokens/s of other trainers: the bf16 sides of the FP8 pairs, and single runs."""
    sides = {
        (row["bf16"], row["source"]): _run(row, row["bf16"])._replace(
            group=f"{row['chip']}, bf16", recipe="", gather=False
        )
        for row in DATA["gain"]
        if "bf16" in row
    }
    alone = [_run(row, row["tokens_per_second"]) for row in DATA["speed"]]
    return [*sides.values(), *alone]


def _run(row: dict[str, Any], measured: float) -> Run:
    return Run(
        row["name"],
        row["group"],
        _step(row),
        _chip(row),
        row["recipe"],
        row["fp8_all_gather"],
        measured,
        row.get("assumed", ""),
        row["source"],
        row["model"],
    )


def tokens_per_second(run: Run, engine: Engine) -> float:
    """Predicted tokens/s per GPU."""
    step = run.step
    total = seconds(step, run.chip, run.recipe, engine, gather=run.gather).total
    return step.tokens / total / step.tp / step.pp


def gain(run: Run, engine: Engine) -> float:
    """Predicted speed in FP8 relative to bf16."""
    base = seconds(run.step, run.chip, "", engine)
    fast = seconds(run.step, run.chip, run.recipe, engine, gather=run.gather)
    return base.total / fast.total


def linears() -> list[tuple[dict[str, Any], float]]:
    """Published tensorwise speed-ups of single linears, with the rowwise table's."""
    return [
        (row, gemm_speed.rowwise(row["m"], row["k"], row["n"])) for row in DATA["gemm"]
    ]


def _chip(row: dict[str, Any]) -> Chip:
    chip = DATA["chip"][row["chip"]]
    return Chip(chip["tflops"], chip["gb_per_s"])


def _step(row: dict[str, Any]) -> Step:
    shape = decoder(DATA["model"][row["model"]])
    tokens = row["micro_batch"] * row["seq_len"]
    tp = row["tp"]
    skips = row.get("skips", ())
    gemms = tuple(
        gemm._replace(fp8=gemm.fp8 and gemm.name not in skips)
        for gemm in of_decoder(
            shape,
            tokens,
            tokens,
            tp=tp,
            head_tp=tp,
            repeated=REPEATED[row["ac"]],
            fp8_head=row.get("fp8_head", False),
        )
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


def decoder(model: dict[str, Any]) -> Decoder:
    """The sizes of a model of ``speeds.toml``."""
    hidden = model["hidden_size"]
    return Decoder(
        model["layers"],
        hidden,
        model["heads"],
        model["kv_heads"],
        model.get("head_dim", hidden // model["heads"]),
        model["ffn_size"],
        model.get("ffn_matrices", 3),
        model["vocab_size"],
        model["layers"],
    )
