"""Bytes per token that torchtitan's Llama 3 keeps on one rank of tensor parallelism.

``TRAINER_PYTHON -m benchmarks.torchtitan.tensor_parallel WHEELS`` applies the trainer's
own plan (0.2.2, ``apply_tp``) for rank 0 of 8 on the CPU, runs forward, and counts the
storages that autograd saves, parameters apart: of one block, and of the head alone.
Collectives go to torch's fake process group, which allocates what NCCL
would. FP8 is emulated, tensorwise, with its gathering in FP8; without AC it is left
out, since emulation keeps copies of its own. The tables compare with what ``estimate``
counts.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from benchmarks import machine
from benchmarks.activation_bytes import PARTITION, parts
from benchmarks.torchtitan.activation_bytes import (
    DEPTHS,
    TOKENS,
    Shape,
    build,
    torchtitan,
)
from fp8tune.job import Unknown
from fp8tune.trainers.torchtitan.memory import (
    activation_bytes,
    gathered_input_bytes,
    gathered_inputs_bytes,
    kept_bytes,
    saved_sums_bytes,
)
from tests.support.live_bytes import LiveBytes

TP = 8
SHAPES = (Shape(512, 2, 8, 8), Shape(512, 4, 8, 8), Shape(1024, 2, 16, 8))
MODES = (
    ("none", False, False),
    ("none", True, False),
    ("op", False, False),
    ("full", False, False),
    ("full", False, True),
)
"""AC, compiled blocks, FP8."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print blocks and head."""
    with torchtitan(arguments, __doc__):
        mesh = _mesh()
        heads = [head_row(shape, mesh) for shape in SHAPES]
        blocks = [row(shape, mesh, *mode) for mode in MODES for shape in SHAPES]
    size = "D, F/D, heads, KV heads"
    print(machine.table(heads, (size, "head keeps", "counted")) + "\n")
    titles = ("AC", "blocks", size, "block keeps", "counted", "error")
    print(machine.table(blocks, titles))
    return 0


def head_row(shape: Shape, mesh: Any) -> tuple[str, ...]:
    """Return what the head keeps of its input, and what is counted."""
    model = _split(shape, 1, mesh, "full", fp8=False)
    hidden = _hidden(shape)
    with _Saved(model) as saved:
        normed = model.norm(hidden)
        before = dict(saved.kept)
        logits = model.output(normed)
    del logits
    new = [saved.kept[k] for k in saved.kept.keys() - before.keys()]
    measured = sum(part.untyped_storage().nbytes() for part in new) / TOKENS
    counted = gathered_input_bytes(TP, shape.dim)
    return _words(shape), f"{measured:,.0f}", f"{counted:,.0f}"


def row(shape: Shape, mesh: Any, ac: str, compiled: bool, fp8: bool) -> tuple[str, ...]:
    """Return a line of the table of blocks."""
    few, many = (saved_bytes(shape, n, mesh, ac, compiled, fp8) for n in DEPTHS)
    measured = (many - few) / (DEPTHS[1] - DEPTHS[0]) / TOKENS
    words = f"{'compiled' if compiled else 'eager'}{', FP8' if fp8 else ''}"
    head_dim = shape.dim // shape.heads
    sizes = (shape.dim, shape.ffn * shape.dim, shape.heads, shape.kv_heads, head_dim)
    try:
        kept = kept_bytes(ac, *sizes, 2, True, True, compiled, 2, False)
    except Unknown:
        return ac, words, _words(shape), f"{measured:,.0f}", "unknown", ""
    more = (
        gathered_inputs_bytes(TP, shape.dim),
        saved_sums_bytes(TP, shape.dim, ac, compiled),
    )
    counted = activation_bytes(kept, TP, ac, 2, *more)
    if ac == "op":  # attention of the CPU is not on the trainer's list
        counted -= (2 * shape.heads * head_dim + 4 * shape.heads) / TP
    off = f"{counted / measured - 1:+.1%}"
    return ac, words, _words(shape), f"{measured:,.0f}", f"{counted:,.0f}", off


def saved_bytes(
    shape: Shape, depth: int, mesh: Any, ac: str, compiled: bool, fp8: bool
) -> int:
    """Bytes that the forward pass of all blocks keeps on one rank."""
    torch: Any = import_module("torch")
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = _split(shape, depth, mesh, ac, fp8)
    blocks = list(model.layers.values())
    if compiled:
        blocks = [torch.compile(b, backend=PARTITION, fullgraph=True) for b in blocks]
    hidden = _hidden(shape)
    if ac == "op":  # what it saves is not in autograd's hooks
        return _alive(model, hidden)
    with _Saved(model) as saved:
        for block in blocks:
            hidden = block(hidden, model.freqs_cis, None)
    del hidden
    return sum(part.untyped_storage().nbytes() for part in saved.kept.values())


def _alive(model: Any, hidden: Any) -> int:
    """Bytes that are alive after the forward pass of all blocks."""
    torch: Any = import_module("torch")
    with LiveBytes("forward") as live:
        for block in model.layers.values():
            hidden = block(hidden, model.freqs_cis, None)
        live.enter("end")
        torch.empty(1)
    return live.peaks["end"]


def _split(shape: Shape, depth: int, mesh: Any, ac: str, fp8: bool) -> Any:
    """The model in bf16 with the trainer's plan, FP8 linears and AC."""
    torch: Any = import_module("torch")
    infra: Any = import_module("torchtitan.models.llama3.infra.parallelize")
    config: Any = import_module("torchtitan.config.job_config")
    model = build(shape, depth)
    model.norm.to(torch.bfloat16)
    model.output.to(torch.bfloat16)
    if fp8:
        float8: Any = import_module("torchao.float8")
        float8.convert_to_float8_training(
            model,
            config=float8.Float8LinearConfig(emulate=True),
            module_filter_fn=lambda _, name: "output" not in name,
        )
    infra.apply_tp(model, mesh, loss_parallel=True, enable_float8_tensorwise_tp=fp8)
    if ac != "none":
        infra.apply_ac(
            model,
            config.ActivationCheckpoint(
                mode="selective" if ac == "op" else ac, selective_ac_option="op"
            ),
            model_compile_enabled=False,
            op_sac_save_list=infra._op_sac_save_list,
        )
    return model


def _hidden(shape: Shape) -> Any:
    """A rank's part of the sequence in the residual stream."""
    torch: Any = import_module("torch")
    size = (1, TOKENS // TP, shape.dim)
    return torch.randn(*size, dtype=torch.bfloat16, requires_grad=True)


class _Saved:
    """Collects the storages that autograd saves, without parameters and buffers."""

    def __init__(self, model: Any) -> None:
        torch: Any = import_module("torch")
        known = (*model.parameters(), *model.buffers())
        self._known = {_address(part) for t in known for part in parts(t)}
        self.kept: dict[int, Any] = {}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda t: t)

    def _pack(self, tensor: Any) -> Any:
        for part in parts(tensor):
            if _address(part) not in self._known:
                self.kept[_address(part)] = part
        return tensor

    def __enter__(self) -> _Saved:
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)


def _mesh() -> Any:
    """Rank 0 of 8, without a network."""
    distributed: Any = import_module("torch.distributed")
    meshes: Any = import_module("torch.distributed.device_mesh")
    fake: Any = import_module("torch.testing._internal.distributed.fake_pg")
    distributed.init_process_group(
        "fake", rank=0, world_size=TP, store=fake.FakeStore()
    )
    return meshes.init_device_mesh("cpu", (TP,), mesh_dim_names=("tp",))


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _words(shape: Shape) -> str:
    return ", ".join(map(str, shape))


if __name__ == "__main__":
    sys.exit(main())
