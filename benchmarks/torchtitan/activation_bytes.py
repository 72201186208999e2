"""Activation bytes that one block of torchtitan's Llama 3 keeps for the backward pass.

``TRAINER_PYTHON -m benchmarks.torchtitan.activation_bytes WHEELS`` runs the blocks of
0.2.2 forward on the CPU, eager and compiled, with the trainer's own activation
checkpointing, and counts the storages that autograd saves, parameters apart
(``benchmarks/activation_bytes.py``). Two depths give the bytes of one block. The table
compares them with what ``estimate`` counts. Compiled modes stop where the graph is
parted into forward and backward pass. Per-op AC is left out: attention on the CPU is
not on its list of operations that are saved.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.activation_bytes import PARTITION, parts
from fp8tune.job import Unknown
from fp8tune.trainers.torchtitan.memory import kept_bytes

VERSION = "0.2.2"
TOKENS, VOCAB = 256, 64
DEPTHS = (2, 4)


class Shape(NamedTuple):
    """The size of a block; the FFN size is ``ffn`` times the hidden size."""

    dim: int
    ffn: int
    heads: int
    kv_heads: int


SHAPES = (
    Shape(512, 2, 8, 8),
    Shape(512, 4, 8, 8),
    Shape(512, 4, 8, 2),
    Shape(1024, 2, 16, 4),
)
MODES = (
    ("none", False),
    ("none", True),
    ("every-2", False),
    ("every-2", True),
    ("full", False),
    ("full", True),
)


@contextmanager
def torchtitan(arguments: list[str] | None, description: str | None) -> Iterator[None]:
    """Put torchtitan on the path, from the folder of wheels that a command names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("wheels", type=Path, help="a folder with the wheels")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as site:
        wheel = options.wheels / f"torchtitan-{VERSION}-py3-none-any.whl"
        zipfile.ZipFile(wheel).extractall(site)
        sys.path.insert(0, site)
        logging.disable(logging.WARNING)
        yield


def main(arguments: list[str] | None = None) -> int:
    """Measure and print every mode and shape."""
    with torchtitan(arguments, __doc__):
        rows = [row(shape, *mode) for mode in MODES for shape in SHAPES]
    titles = ("AC", "blocks", "D, F/D, heads, KV heads", "measured", "counted", "error")
    print(machine.table(rows, titles))
    return 0


def row(shape: Shape, ac: str, compiled: bool) -> tuple[str, ...]:
    """Return a line of the table."""
    measured = block_bytes(shape, ac, compiled)
    head_dim = shape.dim // shape.heads
    sizes = (shape.dim, shape.ffn * shape.dim, shape.heads, shape.kv_heads, head_dim)
    words = "compiled" if compiled else "eager"
    where = ", ".join(map(str, shape))
    try:
        counted, _ = kept_bytes(ac, *sizes, 2, True, True, compiled, 2, False)
    except Unknown:
        return ac, words, where, f"{measured:,.0f}", "unknown", ""
    off = f"{counted / measured - 1:+.1%}"
    return ac, words, where, f"{measured:,.0f}", f"{counted:,.0f}", off


def block_bytes(shape: Shape, ac: str, compiled: bool) -> float:
    """Bytes per token that one block more keeps."""
    few, many = (saved_bytes(shape, depth, ac, compiled) for depth in DEPTHS)
    return (many - few) / (DEPTHS[1] - DEPTHS[0]) / TOKENS


def saved_bytes(shape: Shape, depth: int, ac: str, compiled: bool) -> int:
    """Bytes that the forward pass of all blocks keeps for the backward pass."""
    torch: Any = import_module("torch")
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = build(shape, depth)
    mode, option = ("selective", ac.removeprefix("every-"))
    if ac in ("none", "full"):
        mode, option = ac, "op"
    checkpointing: Any = import_module("torchtitan.distributed.activation_checkpoint")
    config: Any = import_module("torchtitan.config.job_config")
    infra: Any = import_module("torchtitan.models.llama3.infra.parallelize")
    if mode != "none":
        checkpointing.apply_ac(
            model,
            config.ActivationCheckpoint(mode=mode, selective_ac_option=option),
            model_compile_enabled=compiled,
            op_sac_save_list=infra._op_sac_save_list,
        )
    blocks = list(model.layers.values())
    if compiled:
        blocks = [torch.compile(b, backend=PARTITION, fullgraph=True) for b in blocks]
    known = {_address(t) for t in (*model.parameters(), *model.buffers())}
    kept: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        for part in parts(tensor):
            if _address(part) not in known:
                kept[_address(part)] = part
        return tensor

    hidden = torch.randn(1, TOKENS, shape.dim, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for block in blocks:
            hidden = block(hidden, model.freqs_cis, None)
    del hidden
    return sum(part.untyped_storage().nbytes() for part in kept.values())


def build(shape: Shape, depth: int) -> Any:
    """Return the trainer's model in bf16."""
    torch: Any = import_module("torch")
    models: Any = import_module("torchtitan.models.llama3")
    arguments = models.TransformerModelArgs(
        dim=shape.dim,
        n_layers=depth,
        n_heads=shape.heads,
        n_kv_heads=shape.kv_heads,
        vocab_size=VOCAB,
        multiple_of=shape.ffn * shape.dim,
        ffn_dim_multiplier=shape.ffn * 3 / 8,
        max_seq_len=TOKENS,
    )
    model = models.Transformer(arguments)
    for block in model.layers.values():
        block.to(torch.bfloat16)
    return model


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


if __name__ == "__main__":
    sys.exit(main())
