"""One optimizer step, as the trainer takes it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fp8tune.runners.builtin.model import Decoder
from fp8tune.runners.builtin.spec import Spec


class Step(NamedTuple):
    """What one step gave: the mean loss and the gradient's norm before clipping."""

    loss: float
    grad_norm: float


class Training:
    """A model with its optimizer and data; each call of ``step`` trains on.

    ``logits`` stay until the next ones are there, as in the trainer (scripts/train.py):
    through the backward pass and the optimizer's step.
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

    def compile(self) -> None:
        """Forward and backward of one micro-batch, for the compiler to do its work.

        The gradients are dropped and the batch comes again: nothing is learned.
        """
        batch = next(self.data)
        self.data = itertools.chain((batch,), self.data)
        self._loss(self.model(batch[0]), batch[1]).backward()
        self.optimizer.zero_grad()

    def step(self) -> Step:
        """Accumulate, clip, update; waits for the device."""
        spec = self.spec
        total = 0.0
        for number in range(spec.grad_accum):
            self._sync_gradients(last=number == spec.grad_accum - 1)
            tokens, labels = next(self.data)
            logits = self.logits = self.model(tokens)
            loss = self._loss(logits, labels)
            told = exact_cross_entropy(logits, labels) if spec.steps else loss
            (loss / spec.grad_accum).backward()
            total += told.item()  # waits for the device, as the trainer does
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), spec.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = spec.learning_rate * warmup(self.taken, spec.warmup_steps)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.taken += 1
        return Step(total / spec.grad_accum, float(_whole(norm)))

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, and what balances the experts (scripts/train.py)."""
        loss = cross_entropy(logits, labels, self.spec)
        if not self.spec.experts:
            return loss
        return loss + self.spec.balance_weight * self.model.balance()

    def _sync_gradients(self, *, last: bool) -> None:
        """Reduce gradients over ranks in the last micro-batch only, where sharded."""
        sync = getattr(self.model, "set_requires_gradient_sync", None)
        if sync is not None:
            sync(last)


def adamw(model: nn.Module, spec: Spec) -> torch.optim.AdamW:
    """AdamW with decay on matrices alone; fused on a GPU unless told."""
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


def cross_entropy(logits: Tensor, labels: Tensor, spec: Spec) -> Tensor:
    """Mean cross-entropy of logits [B, S, V]; in chunks of tokens if asked.

    Chunks are slices, as the trainer's are: backward, each fills a whole gradient of
    the logits with zeros but for its own, which is what they cost.
    """
    flat, wanted, size = logits.flatten(0, 1), labels.flatten(), spec.loss_chunk
    if spec.loss != "chunked_cross_entropy" or len(wanted) <= size:
        return functional.cross_entropy(flat, wanted)
    total = torch.zeros((), device=flat.device)
    for first in range(0, len(wanted), size):
        chunk = slice(first, first + size)
        total = total + functional.cross_entropy(
            flat[chunk], wanted[chunk], reduction="sum"
        )
    return total / len(wanted)


EXACT_CHUNK = 256
"""Tokens whose logits are widened at a time."""


@torch.no_grad()
def exact_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The same mean in fp32, beside the training: a trainer's own loss is bf16.

    Its last digit is 0.03 at a loss of 6, more than seeds differ by.
    """
    flat, wanted = logits.flatten(0, 1), labels.flatten()
    parts = zip(flat.split(EXACT_CHUNK), wanted.split(EXACT_CHUNK), strict=True)
    losses = [
        functional.cross_entropy(part.float(), label, reduction="sum")
        for part, label in parts
    ]
    return torch.stack(losses).sum() / len(wanted)


def warmup(step: int, steps: int) -> float:
    """The share of the peak learning rate at a step, from 0."""
    return min(1.0, step / steps) if steps else 1.0


def _whole(norm: Tensor) -> Tensor:
    full = getattr(norm, "full_tensor", None)
    return full() if full is not None else norm
