"""What a log and a profiler trace of a run say, before anything is judged."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Says = Literal["asks", "declines", "claims", "proves", "denies"]
"""What a line of a log says of FP8.

``asks``: it was requested. ``declines``: the config that the log prints asks for 16
bit. ``claims``: the line is printed even if no module was
converted. ``proves``: it counts converted modules, and the count is not 0. ``denies``:
it counts 0, or says that the run goes on in 16 bit.
"""

QUANTITIES = (
    "step",
    "tokens",
    "loss",
    "grad_norm",
    "learning_rate",
    "tokens_per_second",
    "step_s",
    "peak_gib",
    "mfu",
)


@dataclass
class Curve:
    """The logged steps of one start of a run, in the order of the log.

    One array per quantity, NaN where a step does not log it: the step's number, tokens
    seen so far over all ranks, loss, norm of the gradients before clipping, learning
    rate, tokens/s over all ranks, wall time of a step [s], peak memory of one GPU as
    the trainer logs it [GiB], MFU [%].

    ``line`` is the line of the log with its first step. ``every`` is 1, or how many
    steps of a very long log stand for each that is kept: then the first and last steps
    are here, those without a finite loss, and the extremes among the steps read.
    """

    line: int = 0
    every: int = 1

    step: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[float] = field(default_factory=lambda: array("d"))
    loss: array[float] = field(default_factory=lambda: array("d"))
    grad_norm: array[float] = field(default_factory=lambda: array("d"))
    learning_rate: array[float] = field(default_factory=lambda: array("d"))
    tokens_per_second: array[float] = field(default_factory=lambda: array("d"))
    step_s: array[float] = field(default_factory=lambda: array("d"))
    peak_gib: array[float] = field(default_factory=lambda: array("d"))
    mfu: array[float] = field(default_factory=lambda: array("d"))

    def add(self, **values: float) -> None:
        """Append one logged step."""
        for name in QUANTITIES:
            getattr(self, name).append(values.get(name, math.nan))

    def __len__(self) -> int:
        """Return the number of logged steps."""
        return len(self.step)


@dataclass(frozen=True)
class Mention:
    """A line of a log that says something of FP8.

    ``name`` is that of the pattern, ``count`` the number of modules that the line
    counts, if it counts any.
    """

    says: Says
    name: str
    line: int
    text: str
    count: int | None = None


@dataclass(frozen=True)
class Sign:
    """A line that a known cause of failures leaves behind.

    ``cause`` is the name of the cause's file, ``line`` the line of the log, ``values``
    what its pattern captured.
    """

    cause: str
    line: int
    text: str
    values: dict[str, str] = field(default_factory=dict)
    rank: int | None = None


@dataclass
class Log:
    """What a training log says.

    ``trainer`` is the trainer whose lines these are, ``""`` if none is known.
    ``starts`` has a curve for each start of the run in the log; ``began`` is whether
    the log shows the beginning of one. ``ended`` is whether
    the run said that it reached its end, None if the log does not show it.
    False if it said that it stopped before.
    ``settings`` are values that the log prints of the config, by their names there;
    fields of the job and ``global_batch`` are of any trainer.
    ``events`` counts the lines of ``compile``, ``ac``, ``checkpoint``, ``recompile``
    and others by the names of their patterns. ``signs`` holds the first lines of each
    cause, and ``sign_counts`` how many there were.
    ``per_gpu`` is whether ``tokens_per_second`` is of one GPU, because the log does not
    show how many there are.
    """

    path: str
    trainer: str = ""
    lines: int = 0
    starts: list[Curve] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    signs: list[Sign] = field(default_factory=list)
    sign_counts: dict[str, int] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    settings: dict[str, str] = field(default_factory=dict)
    per_gpu: bool = False
    ranks: set[int] = field(default_factory=set)
    began: bool = False
    ended: bool | None = None
    continued: bool = False
    """Whether the run went on in another log."""
    cut: str = ""
    """Why the log could not be read to its end, ``""`` if it was."""


@dataclass
class Calls:
    """How often something ran in a trace, and its time [us]."""

    calls: int = 0
    us: float = 0.0

    def add(self, us: float) -> None:
        """Count one more call."""
        self.calls += 1
        self.us += us


@dataclass
class Gemms(Calls):
    """Matrix multiplications of one kind: calls, time [us] and FLOPs.

    On a GPU the calls are kernels, else operators. ``flops`` counts 2 M K N for those
    whose shapes are in the trace; ``with_shapes`` is their number.
    """

    flops: float = 0.0
    with_shapes: int = 0


@dataclass(frozen=True)
class Left:
    """GEMMs of one operator and shape that ran in 16 or 32 bit, or in FP8.

    ``name`` is the operator, or the kernel if no operator is known. ``shape`` is M, K
    and N where the trace has shapes (of one matrix of a batch), ``dtype`` the type of
    the first operand as torch names it (``c10::BFloat16``). ``phase`` is ``forward``,
    ``backward``, ``optimizer`` or, if the trace does not tell, ``""``.
    """

    name: str
    shape: tuple[int, int, int] | None
    calls: int
    us: float
    dtype: str = ""
    phase: str = ""


@dataclass
class Trace:
    """What a profiler trace shows.

    ``device`` is ``cuda`` if it holds GPU kernels, else ``cpu``, ``""`` if neither;
    ``gpu`` is the GPU's name.

    ``fp8``, ``other`` and ``unclear`` are the GEMMs in FP8, in 16 or 32 bit, and those
    whose precision neither kernel nor operator shows. Those of the optimizer (Muon)
    are in ``optimizer`` instead, and those of batches (``aten::bmm``, as of attention),
    which are never converted, in ``batched``. ``engines`` counts the calls of
    ``fp8`` by library.

    ``forward`` and ``backward`` are whether FP8 GEMMs ran in that pass, None if the
    trace does not tell. ``trains`` is whether anything ran backward. ``casts`` counts
    casts to FP8. ``compiled`` is whether torch.compile generated what ran;
    ``recompiles`` is how often the frame was recompiled that was so most often.

    ``left`` has the GEMMs in 16 or 32 bit and ``ran`` those in FP8, by operator and
    shape, those with the most time first.

    Times [us]: ``gpu_us`` is the sum over all kernels and copies, ``kinds`` the same by
    kind; ``busy_us`` is when the GPU did anything, ``span_us`` from the first to the
    last event of the steps (of everything, if no step was annotated); ``nccl_us`` the
    sum of communication, ``nccl_alone_us`` when nothing else ran beside it. ``waits``
    has the CUDA calls in which the host waited for the GPU, by name and operator
    (``cudaStreamSynchronize in aten::_local_scalar_dense`` is ``.item()``); without a
    GPU it has the operators that would. ``data`` has the waits for a batch. Both count
    only what is inside a step, if there are steps.
    """

    path: str
    device: str = ""
    gpu: str = ""
    rank: int | None = None
    world_size: int | None = None
    steps: int = 0
    fp8: Gemms = field(default_factory=Gemms)
    other: Gemms = field(default_factory=Gemms)
    unclear: Gemms = field(default_factory=Gemms)
    optimizer: Gemms = field(default_factory=Gemms)
    batched: Gemms = field(default_factory=Gemms)
    engines: dict[str, int] = field(default_factory=dict)
    forward: bool | None = None
    backward: bool | None = None
    trains: bool | None = None
    casts: int = 0
    compiled: bool | None = None
    recompiles: int = 0
    left: list[Left] = field(default_factory=list)
    ran: list[Left] = field(default_factory=list)
    kernels: int = 0
    gpu_us: float = 0.0
    kinds: dict[str, float] = field(default_factory=dict)
    busy_us: float = 0.0
    span_us: float = 0.0
    nccl_us: float = 0.0
    nccl_alone_us: float = 0.0
    waits: dict[str, Calls] = field(default_factory=dict)
    data: Calls = field(default_factory=Calls)
    events: int = 0
    cut: str = ""
    """Why the trace could not be read to its end, ``""`` if it was."""
