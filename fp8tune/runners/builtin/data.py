"""Tokens for a trial: the user's shards if the config names them, else synthetic data.

Synthetic data has structure to learn, since zeros or noise differ in numerics and have
no loss to compare. It consists of words whose tokens follow from the first by a fixed
rule; the words' frequencies follow Zipf's law.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fp8tune.runners.builtin.spec import Spec
from fp8tune.runners.builtin.team import data_share

WORD = 16
"""Tokens of a synthetic word."""


class BadData(Exception):
    """The user's data cannot be used with any setting; the message says why."""


class ShortData(Exception):
    """The user's data does not fill a micro-batch of this size."""


def batches(spec: Spec) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs and labels, both [micro_batch, seq_len], without end.

    Of ``n`` ranks that see different data, each trains on every n-th sequence, as with
    the trainer's sampler (KempnerForge, data/sampler.py).
    """
    rank, ranks = data_share(spec)
    spec = spec._replace(micro_batch=spec.micro_batch * ranks)
    stream = shards(spec) if spec.data_files else synthetic_tokens(spec)
    for tokens in _ahead(stream) if spec.reads_ahead else stream:
        moved = tokens[rank::ranks].to(spec.device)  # waits, like scripts/train.py:804
        yield moved[:, :-1].contiguous(), moved[:, 1:].contiguous()


def _ahead(stream: Iterator[Tensor]) -> Iterator[Tensor]:
    """Yield what a stream does, reading the next one meanwhile."""
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(next, stream)
        while True:
            tokens = following.result()
            following = reader.submit(next, stream)
            yield tokens


def synthetic_tokens(spec: Spec) -> Iterator[Tensor]:
    """Yield synthetic token ids [micro_batch, seq_len + 1] without end."""
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
    """Yield token ids [micro_batch, seq_len + 1] from the user's files, without end.

    Each pass has the trainer's order, and leaves out what fills no micro-batch at its
    end (KempnerForge, data/sampler.py, DistributedSampler). Raises ``ShortData`` if all
    files hold less than one micro-batch. Raises ``BadData`` if a file cannot be read,
    if the files have no whole sequence, or if they have an id that the model does not.
    """
    size = spec.seq_len + 1
    opened = list(_opened(spec.data_files))
    ends = list(itertools.accumulate(len(tokens) // size for _, tokens in opened))
    if not ends[-1]:
        hint = "name longer ones, or set a smaller sequence length"
        raise BadData(f"no data file holds {size} tokens, a sequence; {hint}")
    if ends[-1] < spec.micro_batch:
        many = f"{spec.micro_batch} sequences of {size} tokens"
        of_all = " of each rank" * (spec.ranks > 1)
        held = f"the data files hold less than {many}, one micro-batch{of_all}"
        raise ShortData(held)

    def sequence(number: int) -> Tensor:
        file = bisect.bisect_right(ends, number)
        name, tokens = opened[file]
        start = (number - (ends[file - 1] if file else 0)) * size
        read = torch.from_numpy(tokens[start : start + size].astype("int64"))
        _check_ids(read, spec, name)
        return read

    for epoch in itertools.count():
        source = torch.Generator().manual_seed(spec.data_seed + epoch)
        order = torch.randperm(ends[-1], generator=source)
        for numbers in order.split(spec.micro_batch):
            if len(numbers) == spec.micro_batch:
                yield torch.stack([sequence(number) for number in numbers.tolist()])


def _opened(names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield each file and its token ids; raises ``BadData`` for an unreadable file.

    Files are read as the trainer does: raw if the first name ends in ``.bin``, else as
    arrays.
    """
    read = _raw if Path(names[0]).suffix == ".bin" else _array
    for name in names:
        try:
            yield name, read(name)
        except (EOFError, OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise BadData(f"`{name}` cannot be read: {why}; fix or remove it") from None


def _raw(name: str) -> Any:
    """Map raw token ids: four bytes each if the file's size allows it, else two."""
    import numpy

    size = Path(name).stat().st_size
    kind = numpy.dtype(numpy.uint32 if size % 4 == 0 else numpy.uint16)
    return numpy.memmap(name, kind, "r", shape=(size // kind.itemsize,))


def _array(name: str) -> Any:
    """Map the array of a ``.npy`` file."""
    import numpy

    try:
        return numpy.load(name, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if _begins(name, numpy.lib.format.MAGIC_PREFIX):
            raise
        only = "raw ids are read only where the first file ends in .bin"
        raise ValueError(f"no array of NumPy, and {only}") from error


def _begins(name: str, how: bytes) -> bool:
    with open(name, "rb") as file:
        return file.read(len(how)) == how


def _check_ids(read: Tensor, spec: Spec, name: str) -> None:
    """Raise ``BadData`` if the model has no embedding for an id."""
    largest = int(read.max())
    if largest >= spec.vocab_size:
        what = f"`{name}` holds the id {largest}, the model's vocabulary has"
        raise BadData(
            f"{what} {spec.vocab_size}; set its size to that of the tokenizer"
        )
