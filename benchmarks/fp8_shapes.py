"""Which GEMM shapes an FP8 linear refuses, and in which pass.

On a CUDA device torchao's Float8Linear (tensorwise) runs forward and backward. On any
other machine the three GEMMs of a linear are put to the shape checks that torch makes
for CUDA, on tensors without data: that shows the checks, not what cuBLAS itself says.
The fp8-*-not-16 rules say that K, N and M have to be multiples of 16, M in the
backward pass alone. Exit code 0: as the rules say; 1: otherwise.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.rows import write

STEP = 16
"""What K, N and M have to be multiples of, as the rules say."""


class Gemm(NamedTuple):
    """A linear layer: M tokens, K inputs, N outputs."""

    m: int
    k: int
    n: int


class Outcome(NamedTuple):
    """Where a shape was refused (nowhere, forward, backward), and the words."""

    shape: Gemm
    refused: str
    message: str

    @property
    def expected(self) -> str:
        """What the rules say of the shape."""
        if self.shape.k % STEP or self.shape.n % STEP:
            return "forward"
        return "backward" if self.shape.m % STEP else ""


SHAPES = (
    Gemm(64, 64, 64),
    Gemm(16, 16, 16),
    Gemm(48, 80, 112),
    *(Gemm(64, 64, n) for n in (72, 68, 65)),
    *(Gemm(64, k, 64) for k in (72, 68, 65)),
    *(Gemm(m, 64, 64) for m in (72, 68, 65, 8)),
)


def main(arguments: list[str] | None = None) -> int:
    """Try all shapes and print who refuses which."""
    parser = argparse.ArgumentParser(prog="fp8_shapes", description=__doc__)
    parser.add_argument("--output", type=Path, help="save the outcomes as JSON")
    options = parser.parse_args(arguments)
    logging.disable(logging.ERROR)
    torch: Any = import_module("torch")
    real = torch.cuda.is_available()
    environment = describe(torch, real)
    outcomes = []
    for shape in SHAPES:
        outcomes.append((on_gpu if real else on_paper)(shape))
        if options.output:
            data = {"environment": environment, "outcomes": list(map(_data, outcomes))}
            write(options.output, f"{json.dumps(data, indent=2)}\n")
    print("\n".join(f"- {key}: {value}" for key, value in environment.items()))
    print(f"\n{show(outcomes)}")
    wrong = sum(outcome.refused != outcome.expected for outcome in outcomes)
    print(f"\n{len(outcomes) - wrong} of {len(outcomes)} as the rules say")
    return int(bool(wrong))


def describe(torch: Any, real: bool) -> dict[str, str]:
    """The machine, torch, and what was run."""
    how = "Float8Linear, forward and backward" if real else "shape checks, no kernels"
    gpu = {"gpu": torch.cuda.get_device_name()} if real else {}
    return machine.describe() | gpu | {"torch": torch.__version__, "ran": how}


def on_gpu(shape: Gemm) -> Outcome:
    """Run an FP8 linear on the GPU."""
    torch: Any = import_module("torch")
    float8: Any = import_module("torchao.float8")
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    linear = torch.nn.Linear(shape.k, shape.n, bias=False, **made)
    model = float8.convert_to_float8_training(torch.nn.Sequential(linear))
    tokens = torch.randn(shape.m, shape.k, requires_grad=True, **made)
    try:
        output = model(tokens)
        torch.cuda.synchronize()
    except RuntimeError as error:
        return Outcome(shape, "forward", _first_line(error))
    try:
        output.sum().backward()
        torch.cuda.synchronize()
    except RuntimeError as error:
        return Outcome(shape, "backward", _first_line(error))
    return Outcome(shape, "", "")


def on_paper(shape: Gemm) -> Outcome:
    """Put the three GEMMs of a linear to torch's shape checks for CUDA."""
    m, k, n = shape
    for name, (rows, inner, columns) in (
        ("forward", (m, k, n)),
        ("backward", (m, n, k)),
        ("backward", (n, m, k)),
    ):
        message = _check(rows, inner, columns)
        if message:
            return Outcome(shape, name, message)
    return Outcome(shape, "", "")


def _check(rows: int, inner: int, columns: int) -> str:
    """The error of one FP8 GEMM on tensors without data."""
    torch: Any = import_module("torch")
    fake: Any = import_module("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        made: dict[str, Any] = {"device": "cuda", "dtype": torch.float8_e4m3fn}
        scale = torch.empty((), device="cuda")
        left = torch.empty(rows, inner, **made)
        right = torch.empty(columns, inner, **made).t()
        try:
            torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16)
        except RuntimeError as error:
            return _first_line(error)
    return ""


def show(outcomes: list[Outcome]) -> str:
    """The outcomes as a Markdown table."""
    rows = [
        (
            *map(str, outcome.shape),
            outcome.refused or "no",
            outcome.expected or "no",
            outcome.message,
        )
        for outcome in outcomes
    ]
    return machine.table(rows, ("M", "K", "N", "refused", "rules say", "message"))


def _data(outcome: Outcome) -> dict[str, Any]:
    return {
        **outcome.shape._asdict(),
        "refused": outcome.refused,
        "expected": outcome.expected,
        "message": outcome.message,
    }


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
