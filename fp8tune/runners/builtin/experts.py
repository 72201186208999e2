"""A mixture of experts: each token goes to its ``top_k`` best experts.

Tokens are sorted by expert and padded to the fullest one, so that all experts are one
batched matmul; this is the trainer's way too, and its memory is what it costs. Where
the trainer calls ``torch._grouped_mm`` on the padded tensors, this is ``torch.bmm``:
the same product by another kernel. The loss that balances the router's load is
left out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from fp8tune.runners.builtin.spec import Spec


class Experts(nn.Module):
    """Router, experts, and a shared expert that every token passes."""

    def __init__(self, spec: Spec, dense: Callable[[Spec, int], nn.Module]) -> None:
        super().__init__()
        self.top_k = spec.top_k
        self.router = nn.Linear(spec.hidden_size, spec.experts, bias=False)
        experts = [dense(spec, spec.expert_size) for _ in range(spec.experts)]
        self.experts = nn.ModuleList(experts)
        shared = dense(spec, spec.expert_size) if spec.shared_experts > 0 else None
        self.shared_expert = shared

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        flat = x.reshape(-1, x.shape[-1])
        scores = self.router(flat).softmax(-1)
        weights, chosen = scores.topk(self.top_k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = self._dispatch(flat, weights, chosen)
        if self.shared_expert is not None:
            out = out + self.shared_expert(flat)
        return out.view_as(x)

    def _dispatch(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Rows of ``x`` [T, D] through their experts; weights, chosen [T, top_k]."""
        expert = chosen.reshape(-1)
        order = expert.argsort(stable=True)
        token = order // self.top_k
        counts = torch.bincount(expert, minlength=len(self.experts))
        starts = counts.cumsum(0) - counts
        slot = torch.arange(len(order), device=x.device) - starts[expert[order]]
        padded = x.new_zeros(len(self.experts), int(counts.max()), x.shape[1])
        padded[expert[order], slot] = x[token]
        done = self._run(padded)[expert[order], slot]
        done = done * weights.reshape(-1)[order].unsqueeze(-1)
        return torch.zeros_like(x).index_add(0, token, done.to(x.dtype))

    def _run(self, x: Tensor) -> Tensor:
        """All experts at once: [E, rows, D] to [E, rows, D]."""
        up = torch.bmm(x, self._stack("up_proj"))
        gate = getattr(self.experts[0], "gate_proj", None)
        act = self.experts[0].act
        if gate is not None:
            inner = functional.silu(torch.bmm(x, self._stack("gate_proj"))) * up
        else:
            inner = act(up)  # type: ignore[operator]
        return torch.bmm(inner, self._stack("down_proj"))

    def _stack(self, name: str) -> Tensor:
        weights = [getattr(expert, name).weight.t() for expert in self.experts]
        return torch.stack(weights)
