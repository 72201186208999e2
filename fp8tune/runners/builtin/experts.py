"""A mixture of experts: each token goes to its ``top_k`` best experts.

The implementation follows the trainer's, because its cost is measured here. Tokens are
sorted by expert and copied into one tensor, padded to the fullest expert; all experts
are one grouped matmul. In fp32, which has no grouped matmul, experts run one by one.
Each router keeps its losses, and thus their inputs, until its block runs again
(model/moe.py, model/router.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fp8tune.runners.builtin.spec import Spec

GROUPED = (torch.bfloat16, torch.float16)
"""Dtypes that a grouped matmul takes."""

grouped_mm: Callable[[Tensor, Tensor], Tensor] = torch._grouped_mm


class Router(nn.Linear):
    """A linear whose rows can be told apart by ``signs`` [E, D], each 1 or -1.

    Where ranks are simulated, the rows of others repeat rank 0's, and equal rows would
    send all tokens to the same experts.
    """

    signs: Tensor | None = None

    def tell_rows_apart(self, device: str) -> None:
        """Draw ``signs``."""
        drawn = torch.randint(0, 2, self.weight.shape, device=device) * 2 - 1
        self.signs = drawn.to(self.weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """[T, D] to logits [T, E]."""
        if self.signs is None:
            return super().forward(x)
        return functional.linear(x, self.weight * self.signs)


class Experts(nn.Module):
    """Router, experts, and a shared expert that every token passes.

    ``balance`` is the load-balancing loss: 1 if all experts get the same load.
    ``spread`` is the loss of the router's logits, computed even if its weight is 0.
    """

    balance: Tensor
    spread: Tensor

    def __init__(self, spec: Spec, dense: Callable[[Spec, int], nn.Module]) -> None:
        super().__init__()
        self.top_k = spec.top_k
        self.router = Router(spec.hidden_size, spec.experts, bias=False)
        # in the trainer's order, in which the weights are drawn
        shared = dense(spec, spec.expert_size) if spec.shared_experts > 0 else None
        self.shared_expert = shared
        experts = [dense(spec, spec.expert_size) for _ in range(spec.experts)]
        self.experts = nn.ModuleList(experts)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        flat = x.view(-1, x.shape[-1])
        weights, chosen = self._route(flat)
        out = self._dispatch(flat, weights, chosen)
        if self.shared_expert is not None:
            out = out + self.shared_expert(flat)
        return out.view(x.shape)

    def _route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and numbers of the experts of each token, both [T, top_k]."""
        logits = self.router(x)
        scores = logits.softmax(-1)
        weights, chosen = scores.topk(self.top_k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        count = len(self.experts)
        tokens = functional.one_hot(chosen, count).float().sum((0, 1))
        self.balance = count * (tokens / chosen.numel() * scores.mean(0)).sum()
        self.spread = (logits.logsumexp(-1) ** 2).mean()
        return weights, chosen

    def _dispatch(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Rows of ``x`` [T, D] through their experts; weights, chosen [T, top_k].

        The sorted rows stay until the end, as in the trainer.
        """
        if x.dtype not in GROUPED:
            return self._one_by_one(x, weights, chosen)
        expert = chosen.reshape(-1)
        tokens = torch.arange(len(x), device=x.device).unsqueeze(1)
        tokens = tokens.expand(-1, self.top_k).reshape(-1)
        order = expert.argsort(stable=True)
        expert, tokens = expert[order], tokens[order]
        weights = weights.reshape(-1)[order]
        rows = x[tokens]
        counts = torch.bincount(expert, minlength=len(self.experts)).tolist()
        done = self._run(rows, counts) * weights.unsqueeze(-1)
        out = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
        return out.scatter_add_(0, tokens.unsqueeze(-1).expand_as(done), done)

    def _one_by_one(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            here = chosen == number
            rows = here.any(dim=-1)
            if rows.any():
                done = expert(x[rows])
                weight = (weights * here.float()).sum(dim=-1)[rows].unsqueeze(-1)
                out[rows] += (weight * done).to(x.dtype)
        return out

    def _run(self, rows: Tensor, counts: list[int]) -> Tensor:
        """All experts at once: rows [T, D] sorted by expert, to the same shape.

        Stacked weights stay until the end, as in the trainer.
        """
        up, down = self._stack("up_proj"), self._stack("down_proj")
        first: Any = self.experts[0]
        if first.gate_proj is None:
            hidden = first.act(grouped_mm(padded(rows, counts), up))
        else:
            gate = self._stack("gate_proj")
            x = padded(rows, counts)
            gated, inner = grouped_mm(x, gate), grouped_mm(x, up)
            hidden = functional.silu(gated) * inner
        return unpadded(grouped_mm(hidden, down), rows, counts)

    def _stack(self, name: str) -> Tensor:
        weights = [getattr(expert, name).weight.t() for expert in self.experts]
        return torch.stack(weights)


def padded(rows: Tensor, counts: list[int]) -> Tensor:
    """Rows [T, D], sorted by expert, as [E, most rows of an expert, D]."""
    found = rows.new_zeros(len(counts), max(counts), rows.shape[1])
    start = 0
    for number, count in enumerate(counts):
        if count:
            found[number, :count] = rows[start : start + count]
        start += count
    return found


def unpadded(found: Tensor, like: Tensor, counts: list[int]) -> Tensor:
    """The inverse of ``padded``; ``like`` has the shape of the result."""
    rows = torch.zeros_like(like)
    start = 0
    for number, count in enumerate(counts):
        if count:
            rows[start : start + count] = found[number, :count]
        start += count
    return rows
