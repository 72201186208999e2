"""Small trainers that need torch alone: ``trains.py KIND,KIND [CONFIG]``.

Rank 0 prints a line of JSON at the end: the losses of its optimizer steps.
"""

import json
import os
import sys
import time

import torch
from torch import nn

RANK, RANKS = (int(os.environ.get(n, d)) for n, d in (("RANK", 0), ("WORLD_SIZE", 1)))
STEPS = 5


class Lora(nn.Module):
    """A frozen linear with a trained part of rank 2."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(16, 16).requires_grad_(requires_grad=False)
        self.part = nn.Sequential(nn.Linear(16, 2), nn.Linear(2, 16))

    def forward(self, x):
        return self.base(x) + self.part(x)


class OfLibrary(torch.optim.AdamW):
    """Steps through its parent's own step, as some libraries' optimizers do."""

    def step(self, closure=None):
        return super().step(closure)


class Skips:
    """Stands before an optimizer and skips steps, as Accelerate's does."""

    def __init__(self, optimizer):
        self.optimizer, self.asked = optimizer, 0

    def step(self):
        self.asked += 1
        if self.asked % 2 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()


def model_of(kind):
    torch.manual_seed(1)
    model = Lora() if kind == "lora" else nn.Linear(16, 16)
    if kind == "distributed":
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    return model


def losses(kind, model, micro_batches):
    """Yield the loss of each micro-batch after its backward pass."""
    for number in range(STEPS * micro_batches):
        x = torch.full((4, 16), 1.0 + number + 10 * RANK)
        if kind == "checkpoint":  # which runs a backward pass inside of the first
            y = torch.utils.checkpoint.checkpoint(
                model, x.requires_grad_(), use_reentrant=True
            )
        else:
            y = model(x)
        loss = y.square().mean() / micro_batches
        if kind == "becomes_nan" and number >= 2:
            loss = loss * float("nan")
        loss.backward()
        yield loss.item()


def plain(kind, optimizer_type=torch.optim.SGD):
    model = model_of(kind)
    optimizer = optimizer_type(model.parameters(), lr=1e-3)
    for loss in losses(kind, model, 1):
        optimizer.step()
        optimizer.zero_grad()
        yield loss


lora = checkpoint = distributed = plain


def fused(kind):
    def adamw(parameters, lr):
        return torch.optim.AdamW(parameters, lr=lr, fused=True)

    return plain(kind, adamw)


def of_library(kind):
    torch.optim.AdamW([nn.Parameter(torch.ones(1))])  # whose step is then hooked too
    return plain(kind, OfLibrary)


def accumulates(kind):
    model = model_of(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    total = 0.0
    for number, loss in enumerate(losses(kind, model, 4), 1):
        total += loss
        if number % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
            yield total
            total = 0.0


def skips(kind):
    model = model_of(kind)
    optimizer = Skips(torch.optim.SGD(model.parameters(), lr=1e-3))
    found = []
    for loss in losses(kind, model, 2):
        optimizer.step()
        found.append(loss)
    yield from map(sum, zip(found[::2], found[1::2], strict=True))


def several(kind):
    """Two optimizers, the second of which a library steps once for each parameter."""
    model = model_of(kind)
    made = [torch.optim.SGD([p], lr=1e-3) for p in model.parameters()]
    for loss in losses(kind, model, 1):
        for optimizer in (*made, made[-1]):
            optimizer.step()
        for optimizer in made:
            optimizer.zero_grad()
        yield loss


def in_backward(kind):
    """Each parameter is stepped as soon as its gradient is there."""
    model = model_of(kind)
    made = {p: torch.optim.SGD([p], lr=1e-3) for p in model.parameters()}

    def step(parameter):
        made[parameter].step()
        made[parameter].zero_grad()

    for parameter in made:
        parameter.register_post_accumulate_grad_hook(step)
    yield from losses(kind, model, 1)


def without_end(kind):
    """Goes on after Ctrl+C, and starts processes that read its data."""
    data = torch.utils.data.DataLoader(
        torch.ones(10_000, 16), 4, num_workers=2, multiprocessing_context="spawn"
    )
    model = model_of(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = iter(data)
    while True:
        try:
            model(next(batches)).square().mean().backward()
            optimizer.step()
            time.sleep(0.01)
        except (KeyboardInterrupt, StopIteration):
            continue
    yield


def becomes_nan(kind):
    return plain(kind)


def says_steps(_):
    """Prints what looks like steps of others, without the ends of its lines."""
    for number, loss in enumerate(plain(_), 1):
        sys.stdout.write(f"\rstep {number} | loss 1.0 | 2.0 s | 3.0 GiB")
        sys.stdout.flush()
        yield loss


def downloads(_):
    """Asks for what is not here, as a trainer does that needs a model."""
    import urllib.request

    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise OSError("outgoing traffic has been disabled: HF_HUB_OFFLINE=1")
    urllib.request.urlopen("http://192.0.2.1/model.safetensors")
    yield


if __name__ == "__main__":
    FOUND = [loss for kind in sys.argv[1].split(",") for loss in globals()[kind](kind)]
    if RANK == 0:
        print(f"\n{json.dumps(FOUND)}", flush=True)
    if torch.distributed.is_initialized():  # else a rank may abort at its end
        torch.distributed.destroy_process_group()
