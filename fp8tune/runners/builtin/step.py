"""One optimizer step, as in the trainer."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional

from fp8tune.runners.builtin.convert import DTYPES, all_scales
from fp8tune.runners.builtin.model import Decoder
from fp8tune.runners.builtin.spec import Spec


class StepResult(NamedTuple):
    """The result of a step: mean loss, and gradient norm before clipping."""

    loss: float
    grad_norm: float


class Training:
    """A model with its optimizer and data; each call of ``step`` trains one step.

    The host waits for the device after each backward pass, and before the optimizer,
    because trainers do and waiting is part of a step's time; one that waits once a step
    starts the next micro-batch sooner, by the time of launching its first kernels.
    ``logits`` are kept until the next ones exist where the trainer keeps them, so
    through the backward pass and the optimizer step. ``read_at`` has the times at which
    the last step read the loss of each micro-batch [s of ``perf_counter``].
    """

    def __init__(
        self, model: Decoder, spec: Spec, data: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        self.model = model
        self.spec = spec
        self.data = data
        self.optimizer = adamw(model, spec)
        self.cross_entropy = cross_entropy
        if spec.loss_compiled:
            self.cross_entropy = torch.compile(cross_entropy)
        self.logits: Tensor | None = None
        self.taken = 0
        self.read_at: list[float] = []

    def try_micro_batch(self) -> None:
        """Run forward and backward of the next micro-batch without training.

        The gradients are dropped, and the same batch is used again.
        """
        batch = next(self.data)
        self.data = itertools.chain((batch,), self.data)
        with self._splits_loss():
            with self._casts():
                loss = self._loss(self.model(batch[0]), batch[1])
            loss.backward()
        self.optimizer.zero_grad()

    def step(self, count: int = 0) -> StepResult:
        """Accumulate, clip and update; the optimizer may still be running.

        With ``count`` only that many micro-batches are accumulated.
        """
        spec = self.spec
        count = count or spec.grad_accum
        total, self.read_at = 0.0, []
        for number in range(count):
            self._sync_gradients(last=number == count - 1)
            tokens, labels = next(self.data)
            with self._splits_loss():
                with self._casts():
                    logits = self.model(tokens)
                    self.logits = logits if spec.held_logit_bytes else None
                    loss = self._loss(logits, labels)
                exact = exact_cross_entropy(logits, labels) if spec.steps else loss
                del logits
                (loss / count).backward()
            # waits for the backward pass (scripts/train.py:851)
            total += whole(exact.detach()).item()
            self.read_at.append(time.perf_counter())
        norm = clip_gradients(self.model.parameters(), spec.clip_norm)
        grad_norm = float(norm)  # waits too (scripts/train.py:857)
        rates = spec.learning_rates
        for group in self.optimizer.param_groups:
            group["lr"] = rates[min(self.taken, len(rates) - 1)]
        self.optimizer.step()
        if spec.fp8_scales_at_once:
            all_scales(self.model)
        self.optimizer.zero_grad()
        self.taken += 1
        return StepResult(total / count, grad_norm)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return cross-entropy plus load-balancing losses (scripts/train.py)."""
        loss = self.cross_entropy(logits, labels, self.spec)
        if not self.spec.experts:
            return loss
        return loss + self.spec.balance_weight * self.model.balance()

    def _sync_gradients(self, *, last: bool) -> None:
        """Reduce gradients over ranks in the last micro-batch only, or in each."""
        sync = getattr(self.model, "set_requires_gradient_sync", None)
        if sync is not None:
            sync(last or self.spec.reduces_each_micro_batch)

    def _splits_loss(self) -> AbstractContextManager[Any]:
        """A context in which each tensor-parallel rank computes with its logits."""
        if not (self.spec.tp > 1 and self.spec.loss_parallel):
            return nullcontext()
        from torch.distributed.tensor.parallel import loss_parallel

        context: AbstractContextManager[Any] = loss_parallel()
        return context

    def _casts(self) -> AbstractContextManager[Any]:
        """A context that casts weights to the compute precision if FSDP does not."""
        if not self.spec.autocast:
            return nullcontext()
        return torch.autocast(self.spec.device, DTYPES[self.spec.precision])


def adamw(model: nn.Module, spec: Spec) -> torch.optim.AdamW:
    """Return AdamW with the trainer's weight decay; fused on a GPU if configured."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    decayed = [w for w in weights if w.dim() > 1 or spec.decays_norms]
    others = [w for w in weights if w.dim() < 2 and not spec.decays_norms]
    groups = [
        {"params": decayed, "weight_decay": spec.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=spec.learning_rates[0],
        betas=(spec.betas[0], spec.betas[1]),
        eps=spec.eps,
        fused=spec.fused and spec.device == "cuda",
    )


IGNORED = -100
"""The label of a token that does not count."""


def cross_entropy(logits: Tensor, labels: Tensor, spec: Spec) -> Tensor:
    """Return the mean cross-entropy of logits [B, S, V], in chunks if configured.

    In fp32 it casts all logits. The other kinds are KempnerForge's: first they read
    from the device whether any label counts, so the host waits for the forward pass, in
    every micro-batch, except for a chunked loss with a single chunk
    (training/loss.py:28, 64 and 69). It costs most with small micro-batches.
    """
    flat, wanted = logits.view(-1, logits.shape[-1]), labels.view(-1)
    size = spec.loss_chunk
    if spec.loss == "fp32_cross_entropy":
        return functional.cross_entropy(flat.float(), wanted, ignore_index=IGNORED)
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


def _by_mesh(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Group tensors by their mesh, because operators do not mix meshes.

    With tensor parallelism weights that it does not split are on another mesh.
    """
    groups: dict[Any, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        mesh = tensor.device_mesh if isinstance(tensor, DTensor) else None
        groups[mesh].append(tensor)
    return list(groups.values())


def clip_gradients(weights: Iterable[nn.Parameter], most: float) -> Tensor:
    """Scale gradients down to a norm of ``most`` over all ranks; return their norm.

    (KempnerForge, distributed/utils.py; torchtitan, distributed/utils.py)
    """
    own = [weight for weight in weights if weight.grad is not None]
    groups = _by_mesh(weight.grad for weight in own if weight.grad is not None)
    if len(groups) == 1:
        return whole(nn.utils.clip_grad_norm_(own, most, foreach=True))
    squares = [
        whole(torch.stack([gradient.norm() for gradient in group]).square().sum())
        for group in groups
    ]
    total = torch.stack([square.float() for square in squares]).sum().sqrt()
    for group in groups:
        for gradient in group:
            gradient.mul_((most / (total + 1e-6)).clamp(max=1.0))
    return total


def whole(value: Tensor) -> Tensor:
    """Return a value that is reduced over ranks, as a plain tensor."""
    return value.full_tensor() if isinstance(value, DTensor) else value
