"""Bytes per token and vocabulary entry while KempnerForge's losses are differentiated.

Runs the trainer's own loss functions on the CPU (``tests/support/live_bytes.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks import machine
from benchmarks.options import for_checkout
from tests.support.live_bytes import LiveBytes

TOKENS, HIDDEN, VOCAB = 512, 64, 4096
CHUNKS = (1, 2, 4, 8, 16)


def main(arguments: list[str] | None = None) -> int:
    """Measure plain and chunked losses, with and without z-loss, and print them."""
    parser = for_checkout("loss_bytes", __doc__)
    options = parser.parse_args(arguments)
    sys.path.append(str(options.checkout))
    environment = machine.describe_run(options.checkout, options.commit, "cpu")
    print("\n".join(f"- {key}: {value}" for key, value in environment.items()))
    print(f"\n{show()}")
    return 0


def show() -> str:
    """Bytes by number of chunks, as a Markdown table."""
    lines = [
        (
            precision,
            f"{weight:g}",
            *(f"{peak(precision, n, weight):.2f}" for n in CHUNKS),
        )
        for precision in ("bfloat16", "float32")
        for weight in (0.0, 1e-4)
    ]
    head = ("bytes per logit", "z-loss", *(f"chunks: {count}" for count in CHUNKS))
    return machine.table(lines, head)


def peak(precision: str, chunks: int, weight: float) -> float:
    """The most that is allocated from the head on, per token and vocabulary entry."""
    torch: Any = import_module("torch")
    dtype = getattr(torch, precision)
    hidden = torch.randn(TOKENS, HIDDEN, dtype=dtype)
    head = torch.randn(VOCAB, HIDDEN, dtype=dtype, requires_grad=True)
    labels = torch.randint(0, VOCAB, (TOKENS,))
    loss = loss_of(chunks, weight)
    with LiveBytes("loss") as live:
        logits = hidden @ head.t()  # which the training loop holds on to
        loss(logits, labels).backward()
    return live.peaks["loss"] / TOKENS / VOCAB


def loss_of(chunks: int, weight: float) -> Callable[[Any, Any], Any]:
    """The trainer's loss in so many chunks, with a z-loss of this weight."""
    losses: Any = import_module("kempnerforge.training.loss")

    def loss(logits: Any, labels: Any) -> Any:
        size = TOKENS // chunks
        found = losses.chunked_cross_entropy_loss(logits, labels, size)
        return found + losses.z_loss(logits, weight) if weight else found

    return loss


if __name__ == "__main__":
    sys.exit(main())
