"""Real runs on the CPU that look fine and do not train in FP8 as asked.

Each trains a tiny decoder for a step under ``torch.profiler`` after a sabotage, and
leaves a trace and the log lines of a trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torchao.float8 import Float8LinearConfig, convert_to_float8_training

DIM, FFN, VOCAB, LAYERS, SEQ, BATCH = 64, 256, 256, 2, 64, 2

CONFIG = f"""
[model]
dim = {DIM}
n_layers = {LAYERS}
n_heads = 4
n_kv_heads = 4
vocab_size = {VOCAB}
ffn_hidden_dim = {FFN}
max_seq_len = {SEQ}

[train]
batch_size = {BATCH}
seq_len = {SEQ}
max_steps = 20
mixed_precision = "fp8"
compile_model = false
activation_checkpointing = "none"
"""

APPLIED = "Applied Float8 training: recipe=TENSORWISE, fsdp_float8_all_gather=True"
STARTED = "Starting training: step=0, max_steps=20, batch_size=2, grad_accum=1"


def step_lines(first: int = 1, last: int = 20) -> list[str]:
    """Step lines of KempnerForge with a loss that falls."""
    return [
        f"[step {step}] loss={6.0 - 0.1 * step:.4f} | lr=3.00e-04 | grad_norm=1.234 | "
        "tok/s=1,024 | mfu=1.0% | mem=0.5/80GB | step_time=0.13s"
        for step in range(first, last + 1)
    ]


def kempnerforge(*lines: str) -> str:
    """A log of KempnerForge: a start, some lines, steps, and the end."""
    body = [
        *lines,
        f"{STARTED}, world_size=1",
        *step_lines(),
        "Training complete: 20 steps, 2,560 tokens",
    ]
    return "\n".join(f"[rank 0] INFO     {line}" for line in body) + "\n"


class Block(nn.Module):
    """A block of a Llama without norms."""

    def __init__(self) -> None:
        super().__init__()
        sizes = dict.fromkeys(("wq", "wk", "wv", "wo"), (DIM, DIM))
        sizes |= {"w1": (DIM, FFN), "w3": (DIM, FFN), "w2": (FFN, DIM)}
        for name, (rows, columns) in sizes.items():
            setattr(self, name, nn.Linear(rows, columns, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """Attention and FFN, each added to the input."""
        heads = (x.shape[0], x.shape[1], 4, DIM // 4)
        q, k, v = (
            w(x).view(heads).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Decoder(nn.Module):
    """Embedding, two blocks, head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every token."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x)
        return logits


def decoder() -> Decoder:
    """The model in bf16."""
    torch.manual_seed(0)
    return Decoder().to(torch.bfloat16)


def converted(
    keeps: Callable[[str], bool] = lambda _: False,
    config: Float8LinearConfig | None = None,
    model: Decoder | None = None,
) -> Decoder:
    """The model with FP8 linears, but for those that ``keeps`` names."""
    model = model or decoder()
    convert_to_float8_training(
        model, config=config, module_filter_fn=lambda _, name: not keeps(name)
    )
    return model


def tokens() -> Tensor:
    """A batch of random tokens."""
    return torch.randint(VOCAB, (BATCH, SEQ))


def train(model: nn.Module, data: Tensor) -> None:
    """Forward and backward of one batch."""
    logits = model(data).float()
    functional.cross_entropy(logits.flatten(0, 1), data.flatten()).backward()


def recorded(path: str, run: Callable[[], None], *, shapes: bool = True) -> None:
    """Write the trace of a run as a trainer's profiler does."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=shapes) as seen:
        run()
    seen.export_chrome_trace(path)


@dataclass
class Run:
    """A run: what trains, what its log says, and the verdicts that are right.

    ``ranks`` are further runs, whose traces are given too.
    """

    name: str
    train: Callable[[], None] | None
    log: str
    right: tuple[str, ...]
    ranks: tuple[Callable[[], None], ...] = ()
    config: str = CONFIG
    shapes: bool = True


def trains(model: Callable[[], nn.Module]) -> Callable[[], None]:
    """Train a fresh model for a step."""
    return lambda: train(model(), tokens())


def in_16_bit(*names: str) -> Callable[[], nn.Module]:
    """A model that keeps linears in bf16 whose name contains one of these."""
    return lambda: converted(lambda name: any(part in name for part in names))


def evaluates() -> None:
    """An evaluation in FP8."""
    model = converted()
    with torch.no_grad():
        model(tokens())


def evaluates_in_fp8_trains_in_16_bit() -> None:
    """An evaluation in FP8 between training steps in bf16."""
    evaluates()
    train(decoder(), tokens())


def half_of_the_steps() -> None:
    """A step in FP8 and one in bf16, as if FP8 was switched off."""
    train(converted(), tokens())
    train(decoder(), tokens())


class StoredInFp8(nn.Module):
    """A linear whose weight is stored in FP8 and multiplied in bf16."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(linear.weight.to(torch.float8_e4m3fn), False)
        bias = torch.zeros(len(linear.weight), dtype=linear.weight.dtype)
        self.bias = nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply the dequantised weight."""
        return functional.linear(x, self.weight.to(x.dtype), self.bias)


def replaced(by: Callable[[nn.Linear], nn.Module]) -> nn.Module:
    """A model whose linears are replaced."""
    model = decoder()
    for block in model.blocks:
        for name, child in list(block.named_children()):
            assert isinstance(child, nn.Linear)
            setattr(block, name, by(child))
    return model


def fell_back() -> nn.Module:
    """A model that was converted and then loaded from a checkpoint of modules."""
    model = converted()
    for block, loaded in zip(model.blocks, decoder().blocks, strict=True):
        for name, child in loaded.named_children():
            setattr(block, name, child)
    return model


def under_autocast() -> None:
    """FP8 linears that a wrapper bypasses."""
    model = converted()
    for block in model.blocks:
        for child in block.children():
            child.forward = lambda x, own=child: functional.linear(x, own.weight)
    with torch.autocast("cpu", torch.bfloat16):
        train(model, tokens())


def nothing() -> None:
    """A profiler window without a step."""
    torch.ones(4).sum()


def runs() -> Iterator[Run]:
    """Every sabotaged run."""
    claims = kempnerforge(APPLIED)
    silent = kempnerforge()
    bf16 = trains(decoder)
    fp8 = trains(converted)
    not_fp8, partly = ("not-fp8",), ("partly",)
    open_ = ("cannot-tell",)
    yield Run("filter empty", trains(in_16_bit("")), claims, not_fp8)
    yield Run("filter empty, no trace", None, claims, open_)
    yield Run("precision overridden", bf16, silent, not_fp8)
    yield Run("only the head converted", trains(in_16_bit("blocks")), claims, partly)
    ffn_left_out = trains(in_16_bit("w1", "w2", "w3"))
    yield Run("FFN left out", ffn_left_out, claims, partly)
    yield Run("FFN left out, no shapes", ffn_left_out, claims, partly, shapes=False)
    yield Run("one rank in bf16", fp8, claims, partly, ranks=(bf16,))
    yield Run("modules replaced by a checkpoint", trains(fell_back), claims, partly)
    yield Run("linears bypassed under autocast", under_autocast, claims, partly)
    yield Run(
        "weights stored in FP8",
        trains(lambda: replaced(StoredInFp8)),
        claims,
        ("not-fp8", "partly"),
    )
    yield Run("profile of an evaluation", evaluates, claims, ("partly", "cannot-tell"))
    yield Run(
        "evaluation in FP8, training in bf16",
        evaluates_in_fp8_trains_in_16_bit,
        claims,
        partly,
    )
    yield Run("switched off after a step", half_of_the_steps, claims, partly)
    yield Run("empty profile", nothing, claims, open_)
    yield Run(
        "eager where compiled was asked",
        fp8,
        claims,
        partly,
        config=CONFIG.replace("compile_model = false", "compile_model = true"),
    )
    yield Run(
        "restarted without FP8",
        fp8,
        claims + kempnerforge(),
        partly,
    )
