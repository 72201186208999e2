"""Tokens for a trial: the user's shards where they are named, else a made-up language.

The made-up one has structure to learn, because zeros or noise have other kernels'
numerics and no loss to compare: words of common letters, each letter following from
the one before by a fixed rule, with frequencies after Zipf's law.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from fp8tune.runners.builtin.spec import Spec

WORD = 16
"""Tokens that follow from their first one."""


class TooFew(Exception):
    """The user's data does not fill one micro-batch."""


def batches(spec: Spec) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and labels, both [micro_batch, seq_len], without end."""
    stream = shards(spec) if spec.data_files else made_up(spec)
    for tokens in stream:
        moved = tokens.to(spec.device, non_blocking=True)
        yield moved[:, :-1].contiguous(), moved[:, 1:].contiguous()


def made_up(spec: Spec) -> Iterator[Tensor]:
    """Token ids [micro_batch, seq_len + 1]."""
    generator = torch.Generator().manual_seed(spec.data_seed)
    rule = torch.randperm(spec.vocab_size, generator=generator)
    words = [torch.arange(spec.vocab_size)]
    for _ in range(WORD - 1):
        words.append(rule[words[-1]])
    spelled = torch.stack(words, dim=1)
    rank = torch.arange(1, spec.vocab_size + 1, dtype=torch.float64)
    common = (1 / rank).cumsum(0)
    per_sequence = -(-(spec.seq_len + 1) // WORD)
    while True:
        shape = (spec.micro_batch, per_sequence)
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
        first = torch.searchsorted(common, drawn * common[-1])
        yield spelled[first].flatten(1)[:, : spec.seq_len + 1]


def shards(spec: Spec) -> Iterator[Tensor]:
    """Sequences from token files, over and over, in the files' order.

    ``.npy`` files hold one array of ids; others are raw, of four bytes per id where
    the size allows it, else of two, as the trainer reads them. Raises ``TooFew`` where
    no file fills a micro-batch.
    """
    import numpy

    size = spec.seq_len + 1
    full = True
    while full:
        full = False
        for name in spec.data_files:
            raw = name if name.endswith(".npy") else None
            if raw:
                tokens = numpy.load(raw, mmap_mode="r", allow_pickle=False)
            else:
                wide = Path(name).stat().st_size % 4 == 0
                tokens = numpy.memmap(name, numpy.uint32 if wide else numpy.uint16, "r")
            rows = len(tokens) // size
            for start in range(0, rows - spec.micro_batch + 1, spec.micro_batch):
                full = True
                part = tokens[start * size : (start + spec.micro_batch) * size]
                yield torch.from_numpy(part.astype("int64")).view(-1, size)
    many = f"{spec.micro_batch} sequences of {size} tokens"
    raise TooFew(f"too little data: no file of [data] holds {many}, one micro-batch")
