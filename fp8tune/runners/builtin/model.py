"""The decoder that a trial trains: embedding, blocks, head; dense or with experts.

Pre-norm blocks with grouped-query attention, rotary positions and a gated FFN, as in
Llama. What trainers write differently (norms, rotation, copies of keys, first weights)
is told by the spec. Shapes: B sequences, S tokens each, D hidden size, H query heads, V
vocabulary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from fp8tune.runners.builtin.experts import Experts
from fp8tune.runners.builtin.spec import Spec

KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
"""Kernels of attention by their names in configs."""


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last dimension, in fp32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Same shape and dtype as ``x``."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale * self.weight).to(x.dtype)


def norm(size: int, eps: float, spec: Spec) -> nn.Module:
    """Return the RMSNorm that the trainer uses."""
    return nn.RMSNorm(size, eps=eps) if spec.torch_norms else RMSNorm(size, eps)


def rotary_tables(spec: Spec) -> tuple[Tensor, ...]:
    """Tables of rotary positions, each [max_seq_len, head_dim / 2].

    Cosines and sines, or one of complex numbers where pairs are rotated.
    """
    half = torch.arange(0, spec.head_dim, 2).float() / spec.head_dim
    angles = torch.outer(torch.arange(spec.max_seq_len), 1 / spec.rope_theta**half)
    if spec.rotary == "pairs":
        return (torch.polar(torch.ones_like(angles), angles),)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
    """Apply rotary positions to ``x`` [B, S, H, head_dim]; returns [B, H, S, head_dim].

    Pairs of neighbours are complex numbers in fp32; halves stay in the dtype of ``x``,
    and each call casts the tables and slices the halves, as KempnerForge does
    (model/position.py, apply_rope).
    """
    if len(tables) == 1:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = torch.view_as_real(pairs * tables[0][:, None]).flatten(3)
        return turned.type_as(x).transpose(1, 2)
    x, half = x.transpose(1, 2), x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    cos, sin = (table.view(1, 1, -1, half).to(x.dtype) for table in tables)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


class Attention(nn.Module):
    """Causal grouped-query attention."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.head_dim = spec.head_dim
        self.groups = spec.heads // spec.kv_heads
        self.repeats_kv = spec.repeats_kv
        self.sdpa_backend = spec.sdpa_backend
        q_size, kv_size = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        self.q_proj = nn.Linear(spec.hidden_size, q_size, bias=False)
        self.k_proj = nn.Linear(spec.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(spec.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, spec.hidden_size, bias=False)
        per_head = (spec.head_dim, spec.qk_norm_eps, spec)
        self.q_norm = norm(*per_head) if spec.qk_norm else None
        self.k_norm = norm(*per_head) if spec.qk_norm else None

    def kernel(self) -> AbstractContextManager[None]:
        """Return a context in which torch uses the first kernel that it can."""
        if self.sdpa_backend == "auto":
            return nullcontext()
        kernels = [KERNELS[name] for name in self.sdpa_backend.split(", ")]
        context: AbstractContextManager[None] = sdpa_kernel(kernels, set_priority=True)
        return context

    def forward(self, x: Tensor, *tables: Tensor) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        batch, length, _ = x.shape
        heads = (batch, length, -1, self.head_dim)
        q, k, v = (
            proj(x).view(heads) for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        v = v.transpose(1, 2)
        q, k = rotate(q, tables), rotate(k, tables)
        copies = self.groups > 1 and self.repeats_kv
        if copies:  # repeated as the trainer does, so that memory is the same
            k = k.repeat_interleave(self.groups, dim=1)
            v = v.repeat_interleave(self.groups, dim=1)
        grouped = self.groups > 1 and not copies
        with self.kernel():
            mixed = functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=grouped
            )
        mixed = mixed.transpose(1, 2).contiguous().view(batch, length, -1)
        merged: Tensor = self.o_proj(mixed)
        return merged


class FeedForward(nn.Module):
    """Dense FFN: down(act(gate) * up) when gated (SwiGLU), else down(act(up))."""

    def __init__(self, spec: Spec, size: int) -> None:
        super().__init__()
        width, gated = spec.hidden_size, spec.ffn_matrices == 3
        self.act: Callable[[Tensor], Tensor] = getattr(functional, spec.activation)
        self.gate_proj = nn.Linear(width, size, bias=False) if gated else None
        self.up_proj = nn.Linear(width, size, bias=False)
        self.down_proj = nn.Linear(size, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] to [..., D]."""
        if self.gate_proj is None:
            inner = self.act(self.up_proj(x))
        else:
            inner = functional.silu(self.gate_proj(x)) * self.up_proj(x)
        down: Tensor = self.down_proj(inner)
        return down


class Block(nn.Module):
    """One transformer block: attention and FFN, each with its norm and residual."""

    def __init__(self, spec: Spec, index: int) -> None:
        super().__init__()
        self.attention_norm = norm(spec.hidden_size, spec.norm_eps, spec)
        self.attention = Attention(spec)
        self.ffn_norm = norm(spec.hidden_size, spec.norm_eps, spec)
        has_experts = spec.experts > 0 and (index + 1) % spec.moe_every == 0
        self.mlp = (
            Experts(spec, FeedForward)
            if has_experts
            else FeedForward(spec, spec.ffn_size)
        )

    def forward(self, x: Tensor, *tables: Tensor) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        x = x + self.attention(self.attention_norm(x), *tables)
        out: Tensor = x + self.mlp(self.ffn_norm(x))
        return out


class Head(nn.Module):
    """The output projection to the vocabulary."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.proj = nn.Linear(spec.hidden_size, spec.vocab_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, D] to logits [B, S, V]."""
        logits: Tensor = self.proj(x)
        return logits


class Decoder(nn.Module):
    """Tokens [B, S] to logits [B, S, V]."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.embedding = nn.Embedding(spec.vocab_size, spec.hidden_size)
        self.layers = nn.ModuleList(Block(spec, i) for i in range(spec.layers))
        self.norm = norm(spec.hidden_size, spec.norm_eps, spec)
        self.output_head = Head(spec)
        if spec.tied_embeddings:
            self.output_head.proj.weight = self.embedding.weight
        for number, table in enumerate(rotary_tables(spec)):
            self.register_buffer(f"rotary{number}", table, persistent=False)
        self.init_weights(spec)

    def init_weights(self, spec: Spec) -> None:
        """Initialize matrices by ``spec.init``, and norms with 1.

        Of sharded weights only this rank's share, drawn as one whole weight if there
        are other ranks. Also fills the rotary tables, which a model built without
        storage does not have yet.
        """
        first = {"gpt": _as_gpt, "llama": _as_llama}[spec.init]
        for name, weight in self.named_parameters():
            mine: Tensor = weight
            if isinstance(weight, DTensor) and spec.ranks < 2:
                mine = weight.to_local()
            if weight.dim() > 1:
                first(name, mine, spec)
            else:
                nn.init.ones_(mine)
        for buffer, values in zip(self.buffers(), rotary_tables(spec), strict=True):
            buffer.copy_(values)

    def cast(self, dtype: torch.dtype) -> None:
        """Convert weights; the rotary tables stay in fp32."""
        tables = list(self.named_buffers())
        self._apply(lambda tensor: tensor if tensor.is_complex() else tensor.to(dtype))
        for name, table in tables:
            setattr(self, name, table)

    def balance(self) -> Tensor:
        """Return the sum of the load-balancing losses of the last forward pass.

        The sum starts from a host value; copying it to the device waits for the loss,
        as in the trainer (model/transformer.py:266).
        """
        total = torch.tensor(0.0, device=next(self.buffers()).device)
        for layer in self.layers:
            if isinstance(layer.mlp, Experts):
                total = total + layer.mlp.balance
        return total

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every position."""
        length = tokens.shape[1]
        tables = [table[:length] for table in self.buffers()]
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, *tables)
        x = self.norm(x)  # frees its input before the logits, as the trainer does
        logits: Tensor = self.output_head(x)
        return logits


def _as_gpt(name: str, weight: Tensor, spec: Spec) -> None:
    """Normal weights; projections into the residual stream scaled by the depth."""
    into_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
    scale = 1 / math.sqrt(2 * spec.layers) if into_residual else 1.0
    nn.init.normal_(weight, std=spec.init_std * scale)


def _as_llama(name: str, weight: Tensor, spec: Spec) -> None:
    """Deviation 1 for the embedding; the head's by its width, a block's by its depth.

    Source: torchtitan 0.2.2, models/llama3/model/model.py, init_weights.
    """
    if name.startswith("output_head."):
        std = spec.hidden_size**-0.5
        nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std)
        return
    std = 1.0 if name.startswith("embedding.") else spec.init_std
    if name.endswith(("o_proj.weight", "up_proj.weight", "down_proj.weight")):
        block = re.search(r"layers\.(\d+)\.", name)
        std /= math.sqrt(2 * (int(block[1]) + 1)) if block else 1.0
    nn.init.normal_(weight, std=std)
