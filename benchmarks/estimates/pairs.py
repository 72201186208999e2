"""Published steps in bf16 and in FP8 (``pairs.csv``) as steps of the speed model."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.estimates.speeds import DATA, decoder
from fp8tune.facts.linears import Gemm, of_decoder, of_experts
from fp8tune.facts.steptime import Chip, Engine, Parts, Step, seconds

TABLE = Path(__file__).with_name("pairs.csv")
CHIP = Chip(DATA["chip"]["h100"]["tflops"], DATA["chip"]["h100"]["gb_per_s"])
NUMBERS = ("gpus", "seq_len", "micro_batch", "grad_accum", "tp", "pp", "cp", "ep")
ATTENTION = {"none": 3.5, "gate": 3.5, "qkv": 4.5, "full": 4.5}
"""Forward passes of attention by what activation checkpointing repeats."""

REPEATED = {
    "none": frozenset[str](),
    "gate": frozenset({"gate_proj", "up_proj"}),
    "qkv": frozenset({"o_proj", "gate_proj", "up_proj"}),
    "full": frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj"}),
}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A step in bf16 and the same work in FP8: settings and seconds."""

    engine: str
    model: str
    kind: str
    release: str
    gpus: int
    source: str
    experts: bool
    bf16: Step
    fp8: Step
    bf16_seconds: float
    fp8_seconds: float

    @property
    def gain(self) -> float:
        """Published speed in FP8 relative to bf16."""
        return self.bf16_seconds / self.fp8_seconds

    @property
    def family(self) -> str:
        """The model without its variants: what is left out together."""
        return self.model.removesuffix("-kv16")

    @property
    def name(self) -> str:
        """The pair in words."""
        kind = "" if self.kind == "pretrain" else f" {self.kind}"
        return f"{self.model}{kind}, {self.gpus} GPUs, {self.release}"

    def parts(self, engine: Engine) -> tuple[Parts, Parts]:
        """The parts of a micro-batch in bf16 and in FP8."""
        gather = self.engine != "te"
        return (
            seconds(self.bf16, CHIP, "", engine),
            seconds(self.fp8, CHIP, "delayed", engine, gather=gather),
        )

    def predicted(self, engine: Engine) -> tuple[float, float]:
        """Seconds of the step in bf16 and of the same tokens in FP8."""
        one, other = self.parts(engine)
        return one.total * self.bf16.grad_accum, other.total * self.fp8.grad_accum

    def predicted_gain(self, engine: Engine) -> float:
        """Predicted speed in FP8 relative to bf16."""
        one, other = self.predicted(engine)
        return one / other


def rows() -> list[dict[str, str]]:
    """The rows of ``pairs.csv``, as text."""
    with TABLE.open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if line[0] != "#"))


@cache
def pairs() -> tuple[Pair, ...]:
    """Every published pair of ``pairs.csv``."""
    return tuple(map(_pair, rows()))


def _pair(row: dict[str, str]) -> Pair:
    changes = dict(word.split("=") for word in row["fp8_changes"].split())
    names = ("engine", "model", "kind", "release", "source")
    return Pair(
        **{name: row[name] for name in names},
        gpus=int(row["gpus"]),
        experts="experts" in DATA["model"][row["model"]],
        bf16=_step(row),
        fp8=_step(row | changes),
        bf16_seconds=float(row["bf16_seconds"]),
        fp8_seconds=float(row["fp8_seconds"]),
    )


def _step(row: dict[str, str]) -> Step:
    model = DATA["model"][row["model"]]
    layers = int(row["layers"] or model["layers"])
    gpus, seq, batch, accum, tp, pp, cp, ep = (int(row[name]) for name in NUMBERS)
    tokens = batch * seq // cp
    every, routes = model.get("every", 1), model.get("top_k", 0)
    moe = layers // every if routes else 0
    shape = decoder(model)._replace(layers=layers, dense_layers=layers - moe)
    fused = row["engine"] != "te"
    block = of_decoder(
        shape,
        tokens,
        tokens,
        tp=tp,
        head_tp=tp,
        repeated=REPEATED[row["ac"]],
        fp8_head=False,
        fused=fused and row["ac"] == "none",
    )
    etp, width = int(row["etp"] or tp), model.get("expert_size", 0)
    each = tokens * routes * ep * etp // tp // model.get("experts", 1)
    sizes = (shape.hidden_size, width // etp, shape.ffn_matrices)
    experts: tuple[Gemm, ...] = ()
    if moe:
        local = moe * model["experts"] // ep
        experts = of_experts(each, *sizes, local, fp8=True, fused=True)
    if shared := model.get("shared_size", 0):
        sizes = (shape.hidden_size, shared // tp, shape.ffn_matrices)
        args: dict[str, Any] = {"name": "shared", "fp8": True, "fused": True}
        experts += of_experts(tokens, *sizes, moe, **args)
    gemms = (*block, *experts)
    if row["kind"] == "lora":  # no gradient of a base weight
        gemms = tuple(gemm._replace(passes=gemm.passes - 1) for gemm in gemms)
    square = 2.0 * tokens * seq * shape.heads * shape.head_dim * layers / tp
    square *= row["kind"] == "pretrain"  # else packs of short examples
    weights = sum(gemm.weights for gemm in gemms) + shape.vocab_size * shape.hidden_size
    ffn = (layers - moe) * shape.ffn_size + moe * (routes * width + shared)
    return Step(
        gemms=gemms,
        attention_flops=square * ATTENTION[row["ac"]],
        tokens=tokens,
        layers=layers,
        hidden_size=shape.hidden_size,
        ffn_width=ffn / layers / tp,
        vocab_size=shape.vocab_size,
        weights=0 if row["kind"] == "lora" else weights,
        forwards=3 + (row["ac"] != "none"),
        grad_accum=accum,
        shards=gpus // (tp * pp),
        tp=tp,
        pp=pp,
        compile=True,
        across_nodes=gpus > 8,
        gathers_each=row["engine"] != "te-megatron",
        fp8_reduces=row["fp8_reduces"] == "1",
        virtual_stages=int(row["virtual_stages"]),
        routed=tokens * routes * moe,
        ep=ep,
        etp=etp if moe else 1,
    )
