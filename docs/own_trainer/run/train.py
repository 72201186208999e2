"""A small in-house trainer: a TOML config, torch, FP8 by torchao, one or more ranks."""

from __future__ import annotations

import json
import os
import sys
import time
import tomllib
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


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
            if self.recompute == "full":
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(x)


def build(config: dict) -> nn.Module:
    """Return the model in bf16, its blocks' linears in FP8 if asked."""
    train = config["train"]
    torch.manual_seed(train["seed"])
    model = Model(**config["model"], recompute=train["recompute"]).to(torch.bfloat16)
    if train["precision"] == "fp8":
        from torchao.float8 import convert_to_float8_training

        inside = lambda _module, name: name.startswith("blocks")  # noqa: E731
        convert_to_float8_training(model, module_filter_fn=inside)
    return torch.compile(model) if train["compile"] else model


def batches(config: dict, rank: int):
    """Yield batches of sequences in which most tokens follow from the one before."""
    train, vocab = config["train"], config["model"]["vocab"]
    random = torch.Generator().manual_seed(train["data_seed"] + rank)
    draw = partial(torch.randint, generator=random)
    while True:
        tokens = draw(vocab, (train["batch"], train["context"] + 1))
        for place in range(1, train["context"] + 1):
            follows = draw(10, (train["batch"],)) > 0
            after = (tokens[:, place - 1] * 5 + 3) % vocab
            tokens[:, place] = torch.where(follows, after, tokens[:, place])
        yield tokens[:, :-1], tokens[:, 1:]


def optimizer_step(model, optimizer, data, config: dict, ranks: int):
    """Train on the micro-batches of one step; return its loss and gradient norm."""
    count, total = config["train"]["accumulate"], 0.0
    for _ in range(count):
        inputs, targets = next(data)
        logits = model(inputs).float().flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, targets.flatten()) / count
        loss.backward()
        total += loss.item()
    if ranks > 1:
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= ranks
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    optimizer.step()
    optimizer.zero_grad()
    return total, norm


def peak_gib() -> float:
    """Return the most memory that this process has had [GiB]."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(path: str) -> None:
    """Train as the config says."""
    config = tomllib.loads(Path(path).read_text())
    train, run = config["train"], config["run"]
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    say = print if rank == 0 else lambda *_args, **_more: None
    say(f"config {json.dumps(config)}", flush=True)
    model = build(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=train["lr"])
    warm = lambda done: min(1.0, (done + 1) / max(1, train["warmup"]))  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm)
    folder, first = Path(run["checkpoints"]), 0
    if (folder / "last.pt").exists():
        saved = torch.load(folder / "last.pt")
        model.load_state_dict(saved["model"])
        first = saved["step"]
        say(f"resumed at step {first}", flush=True)
    profile = None
    if run["profile"]:
        Path(run["profiles"]).mkdir(parents=True, exist_ok=True)
        name = f"{run['profiles']}/trace-rank{rank}.json"
        profile = torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1),
            on_trace_ready=lambda p: p.export_chrome_trace(name),
            record_shapes=True,
        )
        profile.start()
    say(f"training {train['precision']} from step {first}", flush=True)
    data = batches(config, rank)
    tokens = ranks * train["batch"] * train["accumulate"] * train["context"]
    for step in range(first + 1, train["steps"] + 1):
        start = time.perf_counter()
        loss, norm = optimizer_step(model, optimizer, data, config, ranks)
        schedule.step()
        seconds = time.perf_counter() - start
        say(
            f"step {step} | loss {loss:.4f} | grad norm {norm:.3f} | "
            f"{tokens / seconds:,.0f} tokens/s | {peak_gib():.2f} GiB",
            flush=True,
        )
        if profile:
            profile.step()
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "step": step}, folder / "last.pt")
    say(f"done after step {train['steps']}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
