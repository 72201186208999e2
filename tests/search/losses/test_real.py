"""Curves of real training on a CPU, recorded once (``benchmarks/README.md``)."""

import pytest

from fp8tune.search.losses.compare import MAX_SEEDS, SEEDS, compare
from tests.support import curves

REAL = curves.pool(curves.SEEDS)
NUMBERS = sorted(REAL.bf16)


def said(fp8, numbers):
    """The verdict on FP8's runs beside bf16 of the same seeds."""
    bf16 = [REAL.bf16[number] for number in numbers]
    return compare(list(zip(fp8, bf16, strict=True)), bf16, SEEDS)


@pytest.mark.parametrize("first", range(len(NUMBERS) - MAX_SEEDS))
def test_fp8_follows_bf16_of_the_same_seed(first):
    numbers = NUMBERS[first : first + MAX_SEEDS]
    found = said([REAL.fp8[number] for number in numbers], numbers)
    low, high = found.interval
    assert found.verdict in ("inside", "inconclusive")
    assert high - low < found.spread / 2


def test_a_learning_rate_that_is_too_high_for_fp8_alone_diverges():
    wild = list(REAL.wild.values())[:SEEDS]
    found = said(wild, NUMBERS[:SEEDS])
    assert (found.verdict, found.diverged) == ("diverged", (3, 0))


def test_one_such_run_among_three_does_not_pass():
    one, *rest = (REAL.fp8[number] for number in NUMBERS[:SEEDS])
    for wild in REAL.wild.values():
        found = said([wild, *rest], NUMBERS[:SEEDS])
        assert (found.verdict, found.diverged) == ("inconclusive", (1, 0))
    assert said([one, *rest], NUMBERS[:SEEDS]).verdict == "inside"
