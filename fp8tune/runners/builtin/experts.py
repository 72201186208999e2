"""A mixture of experts: each token goes to its ``top_k`` best experts.

The implementation follows the trainer's, because its cost is measured here. Tokens are
sorted by expert and copied into one tensor, padded to the fullest expert; all experts
are one grouped matmul. In fp32, which has no grouped matmul, experts run one by one.
Each router keeps its losses, and thus their inputs, until its block runs again
(model/moe.py, model/router.py).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from fp8tune.runners.builtin.spec import Spec

GROUPED = (torch.bfloat16, torch.float16)
"""Dtypes that a grouped matmul takes."""

grouped_mm: Callable[[Tensor, Tensor], Tensor] = torch._grouped_mm


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
        self.router = nn.Linear(spec.hidden_size, spec.experts, bias=False)
        # in the trainer's order, in which the weights are drawn
        shared = dense(spec, spec.expert_size) if spec.shared_experts > 0 else None
        self.shared_expert = shared
        experts = [dense(spec, spec.expert_size) for _ in range(spec.experts)]
        self.experts = nn.ModuleList(experts)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        flat = x.reshape(-1, x.shape[-1])
        logits = self.router(flat)
        scores = logits.softmax(-1)
        weights, chosen = scores.topk(self.top_k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        count = len(self.experts)
        tokens = functional.one_hot(chosen, count).float().sum((0, 1))
        self.balance = count * (tokens / chosen.numel() * scores.mean(0)).sum()
        self.spread = (logits.logsumexp(-1) ** 2).mean()
        out = self._dispatch(flat, weights, chosen)
        if self.shared_expert is not None:
            out = out + self.shared_expert(flat)
        return out.view_as(x)

    def _dispatch(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Rows of ``x`` [T, D] through their experts; weights, chosen [T, top_k]."""
        if x.dtype not in GROUPED:
            return self._one_by_one(x, weights, chosen)
        expert = chosen.reshape(-1)
        order = expert.argsort(stable=True)
        token = order // self.top_k
        counts = torch.bincount(expert, minlength=len(self.experts)).tolist()
        done = unpadded(self._run(padded(x[token], counts)), counts)
        done = (done * weights.reshape(-1)[order].unsqueeze(-1)).to(x.dtype)
        places = token.unsqueeze(-1).expand_as(done)
        return torch.zeros_like(x).scatter_add_(0, places, done)

    def _one_by_one(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            here = chosen == number
            rows = here.any(dim=-1)
            if rows.any():
                weight = (weights * here).sum(dim=-1)[rows].unsqueeze(-1)
                out[rows] += (weight * expert(x[rows])).to(x.dtype)
        return out

    def _run(self, x: Tensor) -> Tensor:
        """All experts at once: [E, rows, D] to [E, rows, D]."""
        up, down = self._stack("up_proj"), self._stack("down_proj")
        first = self.experts[0]
        if getattr(first, "gate_proj", None) is None:
            act = first.act
            return grouped_mm(act(grouped_mm(x, up)), down)  # type: ignore[operator]
        gate = grouped_mm(x, self._stack("gate_proj"))
        return grouped_mm(functional.silu(gate) * grouped_mm(x, up), down)

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


def unpadded(found: Tensor, counts: list[int]) -> Tensor:
    """The inverse of ``padded``."""
    rows = found.new_zeros(sum(counts), found.shape[2])
    start = 0
    for number, count in enumerate(counts):
        if count:
            rows[start : start + count] = found[number, :count]
        start += count
    return rows
