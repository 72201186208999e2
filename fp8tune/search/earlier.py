"""The trials of a similar study, as the sampler takes them.

They are evidence for its speed model, which finds out how alike the two studies are,
and they are never counted or reported as this study's own. What they say of memory
comes in by the corrected estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fp8tune.search.sampler import EarlierTrial, Expected
from fp8tune.search.sampler.memory import USABLE
from fp8tune.trials.record import Record
from fp8tune.trials.space import Space, is_count


def earlier_trials(
    space: Space,
    records: Iterable[Record],
    expect: Callable[[Record], Expected] = lambda _record: Expected(),
    scale: float = 1.0,
    card_gib: float = 0.0,
) -> Iterator[EarlierTrial]:
    """Another study's records by the knobs of this one's space.

    ``expect`` is what was expected of them there; one sequence of theirs is ``scale``
    of this study's, their GPU had ``card_gib``. The sampler leaves out settings with
    values that the space does not have.
    """
    batch = space.knob("micro_batch")
    for record in records:
        params = {knob.key: record.knobs.get(knob.key) for knob in space.knobs}
        if batch is not None and is_count(size := params[batch.key]):
            params[batch.key] = size * scale
        card = record.capacity_gib or card_gib
        yield EarlierTrial(
            params=params,
            outcome=record.outcome,
            tokens_per_second=record.tokens_per_second,
            memory_share=record.peak_gib / (card * USABLE) if card else 0.0,
            expected_tokens_per_second=expect(record).tokens_per_second,
        )
