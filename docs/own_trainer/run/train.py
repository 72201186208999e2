"""A small in-house trainer: a TOML config, torch, FP8 by torchao, one or more ranks."""

from __future__ import annotations

import os
import resource
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

RANK, RANKS = (int(os.environ.get(n, d)) for n, d in (("RANK", 0), ("WORLD_SIZE", 1)))


class Block(nn.Module):
    """A residual block of two linears."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of the input and what the linears make of it."""
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    """Predicts a token from the one before it."""

    def __init__(self, dim: int, depth: int, vocab: int, recompute: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False)
        self.recompute = recompute

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next tokens."""
        x = self.embedding(tokens)
        for block in self.blocks:
            again = self.recompute == "full"
            x = checkpoint(block, x, use_reentrant=False) if again else block(x)
        return self.head(x)


def build(config: dict[str, Any]) -> nn.Module:
    """Return the model in bf16, its blocks' linears in FP8 if asked."""
    train = config["train"]
    torch.manual_seed(train["seed"])
    model = Model(**config["model"], recompute=train["recompute"]).to(torch.bfloat16)
    if train["precision"] == "fp8":
        from torchao.float8 import convert_to_float8_training

        inside = lambda _module, name: name.startswith("blocks")  # noqa: E731
        convert_to_float8_training(model, module_filter_fn=inside)
        # on some CPUs oneDNN takes 100 times as long for an FP8 GEMM as torch itself
        torch.backends.mkldnn.set_flags(_enabled=False)
    return torch.compile(model) if train["compile"] else model


def batches(config: dict[str, Any]) -> Iterator[torch.Tensor]:
    """Yield sequences of tokens that are three apart, with every tenth at random."""
    train, vocab = config["train"], config["model"]["vocab"]
    random = torch.Generator().manual_seed(train["data_seed"] + RANK)
    shape = train["batch"], train["context"] + 1
    while True:
        start, other = torch.randint(vocab, (2, *shape), generator=random)
        follows = torch.rand(shape, generator=random) > 0.1
        yield torch.where(
            follows, (start[:, :1] + 3 * torch.arange(shape[1])) % vocab, other
        )


def optimizer_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterator, count: int
) -> tuple[float, float]:
    """Train on the micro-batches of one step; return its loss and gradient norm."""
    total = 0.0
    for _ in range(count):
        tokens = next(data)
        logits = model(tokens[:, :-1]).float().flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, tokens[:, 1:].flatten()) / count
        loss.backward()
        total += loss.item()
    for parameter in model.parameters() if RANKS > 1 else ():
        torch.distributed.all_reduce(parameter.grad)
        parameter.grad /= RANKS
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    optimizer.step()
    optimizer.zero_grad()
    return total, norm


def profiler(folder: Path) -> torch.profiler.profile:
    """Return what writes a profile of step 3."""
    folder.mkdir(parents=True, exist_ok=True)
    return torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(f"{folder}/trace-{RANK}.json"),
    )


def main(path: str) -> None:
    """Train as the config says."""
    config = tomllib.loads(Path(path).read_text())
    train, run = config["train"], config["run"]
    if RANKS > 1:
        torch.distributed.init_process_group("gloo")
    model = build(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=train["lr"])
    warm = lambda done: min(1.0, (done + 1) / max(1, train["warmup"]))  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm)
    saved, first = Path(run["checkpoints"], "last.pt"), 0
    if saved.exists():
        first, state = torch.load(saved)
        model.load_state_dict(state)
    print(f"training in {train['precision']} from step {first}", flush=True)
    data, count = batches(config), train["accumulate"]
    profile = profiler(Path(run["profiles"])) if run["profile"] else None
    if profile:
        profile.start()
    for step in range(first + 1, train["steps"] + 1):
        start = time.perf_counter()
        loss, norm = optimizer_step(model, optimizer, data, count)
        schedule.step()
        seconds = time.perf_counter() - start
        speed = RANKS * train["batch"] * count * train["context"] / seconds
        gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        line = f"step {step} | loss {loss:.4f} | grad norm {norm:.3f} | "
        print(f"{line}{speed:,.0f} tokens/s | {gib:.2f} GiB", flush=True)
        if profile:
            profile.step()
    saved.parent.mkdir(parents=True, exist_ok=True)
    torch.save((train["steps"], model.state_dict()), saved)
    print(f"done after step {train['steps']}", flush=True)


if __name__ == "__main__":
    if RANK:
        sys.stdout = None  # rank 0 alone prints
    main(sys.argv[1])
