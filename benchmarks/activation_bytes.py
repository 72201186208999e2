"""Activation bytes that one block of KempnerForge keeps for the backward pass.

Runs the trainer's own blocks forward and counts the storages that autograd saves,
parameters apart. Two depths of each shape give the bytes of a block without head and
embedding; least squares over the shapes gives per token

    a*D + b*F + c*KV + d*H + e*hd + f

with D the hidden size, F the FFN size, KV the width of the keys, H the heads and hd
their size; with tensor parallelism of one rank, whose group is torch's fake one. The
batch is one sequence: RoPE tables (e) and random states (in f) are kept once per batch,
so longer ones make them smaller. Needs a checkout of the trainer, torch and torchao,
but no FP8 hardware: what is saved is decided before kernels run. On the CPU compiled
modes stop where Inductor has parted the graph into forward and backward pass, and
generate no kernels.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.options import for_checkout
from benchmarks.paths import RESULTS
from benchmarks.rows import write

TOKENS = 256
VOCAB = 64
DEPTHS = (2, 4)
AC = ("none", "selective", "full")
PRECISIONS = ("bf16", "fp8", "fp32")
PARTITION = "aot_eager_decomp_partition"
TERMS = ("D", "F", "KV", "H", "hd", "constant")


class Shape(NamedTuple):
    """The size of a block."""

    dim: int
    ffn: int
    heads: int
    kv_heads: int

    @property
    def terms(self) -> list[float]:
        """What the bytes per token are fitted to."""
        size = self.dim // self.heads
        return [self.dim, self.ffn, self.kv_heads * size, self.heads, size, 1]


SHAPES = (
    Shape(256, 512, 4, 4),
    Shape(256, 1024, 4, 4),
    Shape(512, 1024, 8, 8),
    Shape(512, 2048, 8, 8),
    Shape(512, 2048, 8, 2),
    Shape(512, 1024, 4, 4),
    Shape(256, 512, 8, 4),
    Shape(1024, 1024, 8, 8),
)
SPLIT = (
    Shape(256, 512, 8, 8),
    Shape(256, 1024, 8, 8),
    Shape(512, 1024, 8, 8),
    Shape(512, 2048, 16, 16),
    Shape(512, 2048, 16, 8),
    Shape(1024, 1024, 16, 16),
)
"""Those for tensor parallelism: with one head a rank would transpose in place."""


class Mode(NamedTuple):
    """How the blocks are run."""

    precision: str
    compiled: bool
    ac: str
    tp: int = 1
    tied: bool = False


class Fit(NamedTuple):
    """Bytes per token and block of every shape, and what they are made of."""

    mode: Mode
    measured: list[float]
    coefficients: list[float]
    worst_residual: float


def main(arguments: list[str] | None = None) -> int:
    """Measure all modes, print the coefficients and save them."""
    parser = for_checkout("activation_bytes", __doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--ac", action="append", choices=AC, help="only these modes")
    parser.add_argument("--precision", action="append", choices=PRECISIONS)
    parser.add_argument(
        "--output", type=Path, default=RESULTS / "activation_bytes.json"
    )
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(options.checkout))
    logging.disable(logging.WARNING)
    environment = machine.describe_run(options.checkout, options.commit, options.device)
    fits, failed = [], 0
    for mode in modes(options.precision or PRECISIONS, options.ac or AC):
        try:
            fits.append(fit(mode, options.device))
        except Exception as error:
            failed += 1
            print(f"{mode} failed: {error}", file=sys.stderr, flush=True)
            continue
        print(mode, fits[-1].coefficients, file=sys.stderr, flush=True)
        data = json.dumps(_data(environment, fits), indent=2)
        write(options.output, f"{data}\n")
    print("\n".join(f"- {key}: {value}" for key, value in environment.items()))
    print(f"\n{show(fits)}\n\n{failed} modes failed")
    return int(failed > 0)


def modes(precisions: tuple[str, ...], ac: tuple[str, ...]) -> Iterator[Mode]:
    """Everything that is measured."""
    for precision in precisions:
        for compiled in (False, True):
            for mode in ac:
                yield Mode(precision, compiled, mode)
    for tp in (2, 4) if "bf16" in precisions else ():
        yield from (Mode("bf16", False, mode, tp) for mode in ac if mode != "full")
        if "none" in ac:
            yield Mode("bf16", True, "none", tp)
    if "none" in ac and "bf16" in precisions:
        yield Mode("bf16", True, "none", 4, tied=True)


def fit(mode: Mode, device: str) -> Fit:
    """Measure a mode over all shapes and fit the terms."""
    torch: Any = import_module("torch")
    shapes = SPLIT if mode.tp > 1 else SHAPES
    measured = [block_bytes(shape, mode, device) for shape in shapes]
    terms = torch.tensor([shape.terms for shape in shapes], dtype=torch.float64)
    target = torch.tensor(measured, dtype=torch.float64)
    found = torch.linalg.lstsq(terms, target.unsqueeze(1), driver="gelsd").solution
    worst = (terms @ found - target.unsqueeze(1)).abs().max()
    return Fit(mode, measured, found.flatten().tolist(), float(worst))


def block_bytes(shape: Shape, mode: Mode, device: str) -> float:
    """Bytes per token that one block more keeps."""
    few, many = (saved_bytes(shape, depth, mode, device) for depth in DEPTHS)
    return (many - few) / (DEPTHS[1] - DEPTHS[0]) / TOKENS


def saved_bytes(shape: Shape, depth: int, mode: Mode, device: str) -> int:
    """Bytes that the forward pass of a whole model keeps for the backward pass."""
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = build(shape, depth, mode).to(device)
    own = (*model.parameters(), *model.buffers())
    known = {_address(part) for tensor in own for part in parts(tensor)}
    backend = "inductor" if device == "cuda" else PARTITION
    forward = torch.compile(model, backend=backend) if mode.compiled else model
    kept: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        for part in parts(tensor):
            if _address(part) not in known:
                kept[_address(part)] = part
        return tensor

    batch = torch.randint(0, VOCAB, (1, TOKENS), device=device)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = forward(batch)
    del output
    return sum(part.untyped_storage().nbytes() for part in kept.values())


def build(shape: Shape, depth: int, mode: Mode) -> Any:
    """The trainer's model, prepared in the trainer's order: FP8, then AC."""
    torch: Any = import_module("torch")
    schema: Any = import_module("kempnerforge.config.schema")
    parallel: Any = import_module("kempnerforge.distributed.parallel")
    transformer: Any = import_module("kempnerforge.model.transformer")
    config = schema.ModelConfig(
        dim=shape.dim,
        n_layers=depth,
        n_heads=shape.heads,
        n_kv_heads=shape.kv_heads,
        vocab_size=VOCAB,
        ffn_hidden_dim=shape.ffn,
        max_seq_len=TOKENS,
        tie_embeddings=mode.tied,
    )
    dtype = torch.float32 if mode.precision == "fp32" else torch.bfloat16
    model = transformer.Transformer(config).to(dtype)
    if mode.tp > 1:
        tensor: Any = import_module("kempnerforge.distributed.tensor_parallel")
        tensor.apply_tensor_parallel(model, _mesh(mode.tp))
    if mode.precision == "fp8":
        parallel.apply_float8(model, enable_fsdp_float8_all_gather=False)
    parallel.apply_ac(model, schema.ActivationCheckpointing(mode.ac))
    return model


def _mesh(tp: int) -> Any:
    """The mesh of one tensor-parallel group without a network."""
    distributed: Any = import_module("torch.distributed")
    fake: Any = import_module("torch.testing._internal.distributed.fake_pg")
    meshes: Any = import_module("torch.distributed.device_mesh")
    if distributed.is_initialized():
        distributed.destroy_process_group()
    store = fake.FakeStore()
    distributed.init_process_group("fake", rank=0, world_size=tp, store=store)
    return meshes.init_device_mesh("cpu", (tp,), mesh_dim_names=("tp",))


def parts(tensor: Any) -> list[Any]:
    """The plain tensors inside a tensor subclass such as torchao's FP8 ones."""
    torch: Any = import_module("torch")
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return [tensor] if isinstance(tensor, torch.Tensor) else []
    names, _ = flatten()
    return [part for name in names for part in parts(getattr(tensor, name))]


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def show(fits: list[Fit]) -> str:
    """The coefficients as a Markdown table."""
    rows = [
        (
            f"{fit.mode.precision} {_how(fit.mode)}",
            fit.mode.ac,
            *(f"{value:.2f}" for value in map(_clean, fit.coefficients)),
            f"{fit.worst_residual:.1f}",
            f"{100 * fit.worst_residual / max(fit.measured):.2f} %",
        )
        for fit in fits
    ]
    head = ("bytes per token and block", "AC", *TERMS, "worst residual", "of largest")
    return machine.table(rows, head)


def _data(environment: dict[str, str], fits: list[Fit]) -> dict[str, Any]:
    return {
        "environment": environment,
        "tokens": TOKENS,
        "shapes": [shape._asdict() for shape in SHAPES],
        "split": [shape._asdict() for shape in SPLIT],
        "fits": [
            {
                **fit.mode._asdict(),
                **{
                    term: round(_clean(value), 3)
                    for term, value in zip(TERMS, fit.coefficients, strict=True)
                },
                "worst_residual": round(fit.worst_residual, 2),
                "measured": [round(value, 2) for value in fit.measured],
            }
            for fit in fits
        ],
    }


def _clean(value: float) -> float:
    """Without the minus sign of a rounded zero."""
    return 0.0 if abs(value) < 5e-3 else value


def _how(mode: Mode) -> str:
    split = f" tp{mode.tp}" if mode.tp > 1 else ""
    return f"{'compiled' if mode.compiled else 'eager'}{split}{' tied' * mode.tied}"


if __name__ == "__main__":
    sys.exit(main())
