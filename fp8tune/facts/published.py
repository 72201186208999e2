"""Published gains of whole models by tensorwise FP8. No facts.

All are relative to compiled bf16, with FP8 all-gather if weights are sharded. The full
table, with predictions, is in ``docs/accuracy.md``.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A published gain [ratio], the model's hidden size, and the run in words."""

    gain: float
    hidden_size: int
    run: str
    source: str


BEST = (
    Published(
        1.17,
        1664,
        "nanochat d26, M = 65536",
        "https://github.com/karpathy/nanochat/blob/92d63d4/dev/LOG.md",
    ),
    Published(
        1.18,
        2048,
        "Llama 3 1.8B",
        "https://pytorch.org/blog/training-using-float8-fsdp2/",
    ),
    Published(
        1.29,
        4096,
        "Llama 3 8B on 128 H100, M = 16384",
        "https://github.com/pytorch/torchtitan/blob/b5bcd76c/benchmarks/llama3_h100_202412_torchtitan.md",
    ),
    Published(
        1.51,
        8192,
        "Llama 3 70B on 512 H100",
        "https://pytorch.org/blog/training-using-float8-fsdp2/",
    ),
    Published(
        1.52,
        16384,
        "Llama 3 405B with TP 4",
        "https://pytorch.org/blog/training-using-float8-fsdp2/",
    ),
)
"""The best gain on H100s for each hidden size, smallest first."""

OTHERS = {
    "b200": Published(
        1.25,
        4096,
        "Llama 3 8B on 8 B200, M = 8192",
        "https://github.com/pytorch/ao/tree/main/torchao/prototype/mx_formats",
    ),
    "mi300x": Published(
        1.15,
        4096,
        "Llama 3 8B on 8 MI300X, M = 8192",
        "https://github.com/pytorch/ao/blob/36027d82/docs/source/workflows/training.md",
    ),
}
"""The only gain of tensorwise FP8 that is published for other GPUs."""


def best(hidden_size: int) -> Published:
    """The best published gain of models of a hidden size.

    Between two published sizes it is the larger one's; gains grow with the hidden size.
    """
    return next((one for one in BEST if one.hidden_size >= hidden_size), BEST[-1])
