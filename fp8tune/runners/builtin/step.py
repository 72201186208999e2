"""One optimizer step, as in the trainer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fp8tune.runners.builtin.model import Decoder
from fp8tune.runners.builtin.spec import Spec


class Step(NamedTuple):
    """The result of a step: mean loss, and gradient norm before clipping."""

    loss: float
    grad_norm: float


class Training:
    """A model with its optimizer and data; each call of ``step`` trains one step.

    The host waits for the device at the same places as the trainer, because waiting is
    part of a step's time: in the loss, after each backward pass, and before the
    optimizer. ``logits`` are kept until the next ones exist, as in the trainer
    (scripts/train.py), so through the backward pass and the optimizer step. ``read_at``
    has the times at which the last step read the loss of each micro-batch [s of
    ``perf_counter``].
    """

    def __init__(
        self, model: Decoder, spec: Spec, data: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        self.model = model
        self.spec = spec
        self.data = data
        self.optimizer = adamw(model, spec)
        self.logits: Tensor | None = None
        self.taken = 0
        self.read_at: list[float] = []

    def try_micro_batch(self) -> None:
        """Run forward and backward of the next micro-batch without training.

        The gradients are dropped, and the same batch is used again.
        """
        batch = next(self.data)
        self.data = itertools.chain((batch,), self.data)
        self._loss(self.model(batch[0]), batch[1]).backward()
        self.optimizer.zero_grad()

    def step(self, count: int = 0) -> Step:
        """Accumulate, clip and update; the optimizer may still be running.

        With ``count`` only that many micro-batches are accumulated.
        """
        spec = self.spec
        count = count or spec.grad_accum
        total, self.read_at = 0.0, []
        for number in range(count):
            self._sync_gradients(last=number == count - 1)
            tokens, labels = next(self.data)
            logits = self.logits = self.model(tokens)
            loss = self._loss(logits, labels)
            exact = exact_cross_entropy(logits, labels) if spec.steps else loss
            (loss / count).backward()
            total += exact.item()  # waits for the backward pass (scripts/train.py:851)
            self.read_at.append(time.perf_counter())
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), spec.clip_norm)
        grad_norm = float(_whole(norm))  # waits too (scripts/train.py:857)
        for group in self.optimizer.param_groups:
            group["lr"] = spec.learning_rate * warmup(self.taken, spec.warmup_steps)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.taken += 1
        return Step(total / count, grad_norm)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return cross-entropy plus load-balancing losses (scripts/train.py)."""
        loss = cross_entropy(logits, labels, self.spec)
        if not self.spec.experts:
            return loss
        return loss + self.spec.balance_weight * self.model.balance()

    def _sync_gradients(self, *, last: bool) -> None:
        """If sharded, reduce gradients over ranks in the last micro-batch only."""
        sync = getattr(self.model, "set_requires_gradient_sync", None)
        if sync is not None:
            sync(last)


def adamw(model: nn.Module, spec: Spec) -> torch.optim.AdamW:
    """Return AdamW with weight decay on matrices only; fused on a GPU if configured."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {
            "params": [w for w in weights if w.dim() > 1],
            "weight_decay": spec.weight_decay,
        },
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=spec.learning_rate,
        betas=(spec.betas[0], spec.betas[1]),
        eps=spec.eps,
        fused=spec.fused and spec.device == "cuda",
    )


IGNORED = -100
"""The label of a token that does not count."""


def cross_entropy(logits: Tensor, labels: Tensor, spec: Spec) -> Tensor:
    """Return the mean cross-entropy of logits [B, S, V], in chunks if configured.

    First it reads from the device whether any label counts, so the host waits for the
    forward pass. That happens in every micro-batch, except for a chunked loss with a
    single chunk (training/loss.py:28, 64 and 69). It costs most with small
    micro-batches.
    """
    flat, wanted, size = logits.flatten(0, 1), labels.flatten(), spec.loss_chunk
    if spec.loss == "chunked_cross_entropy":
        return _chunked_cross_entropy(flat, wanted, size)
    if (wanted == IGNORED).all():
        return torch.tensor(0.0, device=flat.device)
    return functional.cross_entropy(flat, wanted, ignore_index=IGNORED)


def _chunked_cross_entropy(flat: Tensor, wanted: Tensor, size: int) -> Tensor:
    """Return the mean cross-entropy of [T, V], ``size`` tokens at a time.

    Chunks are slices, as in the trainer. In the backward pass each one fills a whole
    gradient of the logits with zeros outside its slice; this is their cost.
    """
    if len(wanted) <= size:
        return functional.cross_entropy(flat, wanted, ignore_index=IGNORED)
    counted = (wanted != IGNORED).sum()
    total = torch.tensor(0.0, device=flat.device)
    if counted == 0:
        return total
    for first in range(0, len(wanted), size):
        chunk = slice(first, first + size)
        total = total + functional.cross_entropy(
            flat[chunk], wanted[chunk], ignore_index=IGNORED, reduction="sum"
        )
    return total / counted


EXACT_CHUNK = 256
"""Tokens whose logits are widened at a time."""


@torch.no_grad()
def exact_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy in fp32, since the loss trained on may be bf16.

    A loss of 6 in bf16 has steps of 0.03, more than seeds differ by.
    """
    flat, wanted = logits.flatten(0, 1), labels.flatten()
    parts = zip(flat.split(EXACT_CHUNK), wanted.split(EXACT_CHUNK), strict=True)
    losses = [
        functional.cross_entropy(part.float(), label, reduction="sum")
        for part, label in parts
    ]
    return torch.stack(losses).sum() / len(wanted)


def warmup(step: int, steps: int) -> float:
    """Return the share of the peak learning rate at a step, counted from 0."""
    return min(1.0, step / steps) if steps else 1.0


def _whole(norm: Tensor) -> Tensor:
    full = getattr(norm, "full_tensor", None)
    return full() if full is not None else norm
