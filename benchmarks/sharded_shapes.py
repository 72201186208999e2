"""Which sizes of FP8 linears the ranks of a run must divide, shown on a CPU.

Sharding: FSDP2 shards one linear over a fake process group of any size, and the last
rank runs its forward and backward pass. The conversion is torchao's own, with FP8
emulated. Only FP8 all-gather needs rows that the shards divide, as the rule
fp8-all-gather-uneven says. MXFP8: one linear with torchao's emulated kernels, as the
rules mx-size-not-multiple and mx-tokens-not-multiple say. Exit code 0: as the rules
say; 1: otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.rows import write

BLOCK = 32
COLUMNS = 64
RESULTS = Path(__file__).parent / "results" / "sharded_shapes.md"
HEAD = """# Sizes that the ranks of a run must divide

Written by `python -m benchmarks.sharded_shapes --record`.
"""


class Sharded(NamedTuple):
    """A linear of so many rows, and the ranks that share it."""

    recipe: str
    all_gather: bool
    rows: int
    shards: int
    replicas: int = 1
    tp: int = 1
    split: str = ""
    precomputed: bool = False

    @property
    def expected(self) -> str:
        """The pass in which it fails, by the rule; empty if it runs."""
        rows = self.rows // self.tp if self.split == "rows" else self.rows
        return "forward" if self.all_gather and rows % self.shards else ""


class Blocks(NamedTuple):
    """A linear in MXFP8: M tokens, K inputs, N outputs."""

    m: int
    k: int
    n: int

    @property
    def expected(self) -> str:
        """The pass in which it fails, by the rule; empty if it runs."""
        if self.k % BLOCK:
            return "forward"
        return "backward" if self.m % BLOCK or self.n % BLOCK else ""


RECIPES = ("bf16", "tensorwise", "rowwise", "rowwise_with_gw_hp")
SHARDED = (
    *(Sharded(recipe, False, 4096, shards) for recipe in RECIPES for shards in (6, 24)),
    Sharded("tensorwise", False, 16, 24),
    *(Sharded("tensorwise", True, 4096, shards) for shards in (1, 6, 8, 16, 24)),
    *(Sharded("tensorwise", True, rows, 3) for rows in (128, 129, 4095)),
    Sharded("tensorwise", True, 16, 32),
    Sharded("tensorwise", True, 4096, 6, precomputed=True),
    Sharded("tensorwise", True, 4096, 8, replicas=3),
    Sharded("tensorwise", True, 4096, 3, replicas=8),
    Sharded("tensorwise", True, 96, 24, tp=2, split="rows"),
    *(Sharded("tensorwise", True, 96, n, tp=2, split="rows") for n in (7, 32)),
    Sharded("tensorwise", True, 96, 32, tp=2, split="columns"),
    Sharded("tensorwise", True, 96, 64, tp=2, split="columns"),
    Sharded("tensorwise", False, 96, 64, tp=2, split="rows"),
)
MXFP8 = (
    Blocks(64, 64, 64),
    Blocks(64, 48, 64),
    Blocks(64, 64, 16),
    Blocks(64, 64, 48),
    Blocks(48, 64, 64),
)


def main(arguments: list[str] | None = None) -> int:
    """Try all cases, and print or record what fails."""
    parser = argparse.ArgumentParser(prog="sharded_shapes", description=__doc__)
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    import_module("torch").set_num_threads(1)
    sharded = [(case, attempt(on_last_rank, case)) for case in SHARDED]
    blocks = [(case, attempt(in_mxfp8, case)) for case in MXFP8]
    text = page(sharded, blocks)
    if options.record:
        write(RESULTS, text)
    print(text)
    outcomes: list[tuple[Sharded | Blocks, tuple[str, str]]] = [*sharded, *blocks]
    wrong = [case for case, (refused, _) in outcomes if refused != case.expected]
    print(f"{len(outcomes) - len(wrong)} of {len(outcomes)} as the rules say")
    return int(bool(wrong))


def attempt(steps: Any, case: Any) -> tuple[str, str]:
    """The pass in which a case fails, and the error's first line; empty if it runs."""
    passes = steps(case)
    for name in ("forward", "backward"):
        try:
            next(passes)
        except (AssertionError, RuntimeError) as error:
            return name, str(error).partition("\n")[0]
    return "", ""


def on_last_rank(case: Sharded) -> Any:
    """Run a sharded linear on the last rank; yields after each pass."""
    torch: Any = import_module("torch")
    float8: Any = import_module("torchao.float8")
    fsdp: Any = import_module("torch.distributed.fsdp")
    mesh = _mesh(case)
    model = torch.nn.Sequential(torch.nn.Linear(COLUMNS, case.rows, bias=False))
    model.to(torch.bfloat16)
    if case.recipe != "bf16":
        config = float8.Float8LinearConfig.from_recipe_name(case.recipe)
        changes = {"enable_fsdp_float8_all_gather": case.all_gather, "emulate": True}
        config = dataclasses.replace(config, **changes)
        float8.convert_to_float8_training(model, config=config)
    if case.tp > 1:
        parallel: Any = import_module("torch.distributed.tensor.parallel")
        names = {"rows": "ColwiseParallel", "columns": "RowwiseParallel"}
        style = getattr(parallel, names[case.split])()
        parallel.parallelize_module(model, mesh["tp"], {"0": style})
    ranks = mesh["replicas", "shards"] if case.replicas > 1 else mesh["shards"]
    for module in (model[0], model):
        fsdp.fully_shard(module, mesh=ranks)
    if case.precomputed:
        float8.precompute_float8_dynamic_scale_for_fsdp(model)
    columns = COLUMNS // case.tp if case.split == "columns" else COLUMNS
    output = model(torch.randn(BLOCK, columns, dtype=torch.bfloat16))
    yield
    output.sum().backward()
    yield


def _mesh(case: Sharded) -> Any:
    distributed: Any = import_module("torch.distributed")
    meshes: Any = import_module("torch.distributed.device_mesh")
    fake: Any = import_module("torch.testing._internal.distributed.fake_pg")
    if distributed.is_initialized():
        distributed.destroy_process_group()
    shape = (case.replicas, case.shards, case.tp)
    ranks = case.replicas * case.shards * case.tp
    distributed.init_process_group(
        "fake", rank=ranks - 1, world_size=ranks, store=fake.FakeStore()
    )
    names = ("replicas", "shards", "tp")
    return meshes.init_device_mesh("cpu", shape, mesh_dim_names=names)


def in_mxfp8(case: Blocks) -> Any:
    """Run a linear in MXFP8; yields after each pass."""
    torch: Any = import_module("torch")
    mx: Any = import_module("torchao.prototype.moe_training.mxfp8_linear")
    config: Any = import_module("torchao.prototype.mx_formats.config")
    quantize: Any = import_module("torchao.quantization.quantize_.common")
    made: dict[str, Any] = {"dtype": torch.bfloat16, "requires_grad": True}
    output = mx.mx_mm.apply(
        torch.randn(case.m, case.k, **made),
        torch.randn(case.n, case.k, **made),
        *[torch.float8_e4m3fn] * 3,
        BLOCK,
        quantize.KernelPreference.EMULATED,
        config.MXFP8Dim0CastKernelChoice.TORCH,
        config.MXFP8Dim1CastKernelChoice.TORCH,
        config.ScaleCalculationMode.RCEIL,
        False,
    )
    yield
    output.backward(torch.ones_like(output))
    yield


def page(sharded: list[Any], blocks: list[Any]) -> str:
    """The outcomes as a page."""
    rows = [
        (
            f"{case.recipe}{' (precomputed)' * case.precomputed}",
            "yes" if case.all_gather else "no",
            f"{case.rows}",
            f"{case.replicas}",
            f"{case.shards}",
            f"{case.tp}{case.split and f' ({case.split})'}",
            refused or "no",
            case.expected or "no",
            message,
        )
        for case, (refused, message) in sharded
    ]
    columns = ("recipe", "FP8 all-gather", "rows", "replicas", "shards", "TP")
    ends = ("fails", "rule", "message")
    more = [
        (*map(str, case), refused or "no", case.expected or "no", message)
        for case, (refused, message) in blocks
    ]
    versions = json.dumps(machine.describe("torch", "torchao"), indent=2)
    return f"""{HEAD}
FSDP2 pads the shards of a weight whose rows they do not divide. torchao casts to FP8
without the padding, so that only FP8 all-gather fails. Replicas do not count, and
tensor parallelism splits rows or columns first. A fake process group, one linear with
{COLUMNS} inputs, its last rank. Each weight's scale is computed as it is gathered, but
for one row that has 6 shards (`precomputed`).

{machine.table(rows, (*columns, *ends))}

MXFP8 has blocks of {BLOCK} values along the dimension that each of its three GEMMs sums
over: K in the forward pass, N and the tokens M in the backward pass. Shown with
torchao's emulated kernels. The Triton kernel of the backward pass asserts multiples of
128 (torchao 0.11 to 0.18, `prototype/mx_formats/kernels.py`); it does not run on a CPU.

{machine.table(more, ("M", "K", "N", *ends))}

## What else was looked at

- Tensor parallelism splits K or N, and each part must be a multiple of 16 (`python -m
  benchmarks.fp8_shapes` has the sizes that a GEMM refuses). Sequence parallelism
  gathers the tokens before the GEMM, so M is that of the whole sequence.
- Experts are 3-D parameters that torchao's conversion of linears leaves as they are. A
  router is a linear: its few rows must divide by the shards as well.
- Transformer Engine's FP8 weights, from its source (d0067d0) and that of Megatron-LM
  (d98e8a6), not run: Megatron's distributed optimizer shards a flat, padded buffer of
  all weights, so no size must divide. With torch FSDP2, Megatron turns
  `--fp8-param-gather` off (`training/arguments.py`). FSDP2 itself refuses uneven shards
  of a weight with such hooks (`fsdp_pre_all_gather must return all-gather inputs with
  the padded sharded size`); no trainer that fp8tune reads gets there.

```json
{versions}
```
"""


if __name__ == "__main__":
    sys.exit(main())
