"""The decoder that a trial trains: embedding, blocks, head; dense or with experts.

Pre-norm blocks with grouped-query attention, rotary positions and a gated FFN, as in
Llama. Norms compute in fp32, everything else in the weights' dtype. Shapes: B
sequences, S tokens each, D hidden size, H query heads, V vocabulary.
"""

from __future__ import annotations

import math
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
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * scale * self.weight).to(x.dtype)


def rotary_table(spec: Spec) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each [max_seq_len, head_dim / 2], of rotary positions."""
    half = torch.arange(0, spec.head_dim, 2).float() / spec.head_dim
    angles = torch.outer(torch.arange(spec.max_seq_len), spec.rope_theta**-half)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to ``x`` [B, H, S, head_dim], half by half."""
    left, right = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


class Attention(nn.Module):
    """Causal grouped-query attention."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.head_dim = spec.head_dim
        self.groups = spec.heads // spec.kv_heads
        self.sdpa_backend = spec.sdpa_backend
        q_size, kv_size = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        self.q_proj = nn.Linear(spec.hidden_size, q_size, bias=False)
        self.k_proj = nn.Linear(spec.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(spec.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, spec.hidden_size, bias=False)
        per_head = (spec.head_dim, spec.qk_norm_eps)
        self.q_norm = RMSNorm(*per_head) if spec.qk_norm else None
        self.k_norm = RMSNorm(*per_head) if spec.qk_norm else None

    def kernel(self) -> AbstractContextManager[None]:
        """Return a context in which torch uses the config's attention kernel."""
        if self.sdpa_backend == "auto":
            return nullcontext()
        context: AbstractContextManager[None] = sdpa_kernel(KERNELS[self.sdpa_backend])
        return context

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        batch, length, _ = x.shape
        heads = (batch, length, -1, self.head_dim)
        q, k = self.q_proj(x).view(heads), self.k_proj(x).view(heads)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q.transpose(1, 2), cos, sin), rotate(k.transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(heads).transpose(1, 2)
        if self.groups > 1:  # repeated as the trainer does, so that memory is the same
            k = k.repeat_interleave(self.groups, dim=1)
            v = v.repeat_interleave(self.groups, dim=1)
        with self.kernel():
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        merged: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
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
        inner = self.up_proj(x)
        if self.gate_proj is None:
            inner = self.act(inner)
        else:
            inner = functional.silu(self.gate_proj(x)) * inner
        down: Tensor = self.down_proj(inner)
        return down


class Block(nn.Module):
    """One transformer block: attention and FFN, each with its norm and residual."""

    def __init__(self, spec: Spec, index: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(spec.hidden_size, spec.norm_eps)
        self.attention = Attention(spec)
        self.ffn_norm = RMSNorm(spec.hidden_size, spec.norm_eps)
        has_experts = spec.experts > 0 and (index + 1) % spec.moe_every == 0
        self.mlp = (
            Experts(spec, FeedForward)
            if has_experts
            else FeedForward(spec, spec.ffn_size)
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, S, D] to [B, S, D]."""
        x = x + self.attention(self.attention_norm(x), cos, sin)
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

    cos: Tensor
    sin: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.embedding = nn.Embedding(spec.vocab_size, spec.hidden_size)
        self.layers = nn.ModuleList(Block(spec, i) for i in range(spec.layers))
        self.norm = RMSNorm(spec.hidden_size, spec.norm_eps)
        self.output_head = Head(spec)
        if spec.tied_embeddings:
            self.output_head.proj.weight = self.embedding.weight
        cos, sin = rotary_table(spec)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.init_weights(spec)

    def init_weights(self, spec: Spec) -> None:
        """Initialize: normal weights, norms 1, residual projections scaled by depth.

        Of sharded weights only this rank's share. Also fills the rotary table, which a
        model built without storage does not have yet.
        """
        for name, weight in self.named_parameters():
            mine = weight.to_local() if isinstance(weight, DTensor) else weight
            into_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
            depth = math.sqrt(2 * spec.layers) if into_residual else 1.0
            if weight.dim() > 1:
                nn.init.normal_(mine, std=spec.init_std / depth)
            else:
                nn.init.ones_(mine)
        for buffer, values in zip(
            (self.cos, self.sin), rotary_table(spec), strict=True
        ):
            buffer.copy_(values)

    def balance(self) -> Tensor:
        """Return the sum of the load-balancing losses of the last forward pass.

        The sum starts from a host value; copying it to the device waits for the loss,
        as in the trainer (model/transformer.py:266).
        """
        total = torch.tensor(0.0, device=self.cos.device)
        for layer in self.layers:
            if isinstance(layer.mlp, Experts):
                total = total + layer.mlp.balance
        return total

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every position."""
        length = tokens.shape[1]
        cos, sin = self.cos[:length], self.sin[:length]
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits: Tensor = self.output_head(self.norm(x))
        return logits
