"""What is said of FP8 beside bf16, where the truth is known."""

import math
import random

import pytest

from fp8tune import curves
from fp8tune.curves import count_spikes
from fp8tune.search.losses.compare import (
    MAX_SEEDS,
    SEEDS,
    LossCurve,
    compare,
    diverged,
    final_loss,
    fp8_diverged,
    loss_curve,
    norm_noise,
)
from fp8tune.search.losses.findings import evidence
from fp8tune.trials.record import from_data
from tests.search.losses.runs import (
    STEPS,
    calm,
    climbing,
    course,
    curve,
    falling,
    pairs,
    seeds,
)
from tests.support import curves as recorded


def said(both, least=SEEDS):
    return compare(both, [bf16 for _, bf16 in both], least)


@pytest.mark.parametrize(
    ("by", "count", "verdict"),
    [
        (-0.1, 3, "inside"),
        (0.0, 3, "inside"),
        (0.001, 3, "inside"),
        (0.5, 3, "outside"),
        # worse in every seed by more than they differ
        (0.003, 3, "inconclusive"),
        (0.01, 3, "outside"),
        # more seeds tell more
        (0.005, 3, "inconclusive"),
        (0.005, 6, "outside"),
    ],
)
def test_the_loss_against_the_spread_of_seeds(by, count, verdict):
    found = said(pairs(by, count))
    assert (found.verdict, found.seeds, found.steps) == (verdict, count, STEPS)
    assert found.gap == pytest.approx(by, abs=2e-3)
    assert found.spread == pytest.approx(0.002, rel=0.3)
    low, high = found.interval
    assert low < by < high
    assert high - low < 0.003


def test_a_mean_that_may_be_nothing_is_not_outside():
    """FP8 is worse in the mean of three seeds, by something else in each."""
    by = {0.0: 0.02, 0.002: 0.06, -0.002: -0.02}
    both = [
        (curve("fp8", value + off, seed=seed), curve(by=value, seed=seed))
        for seed, (value, off) in enumerate(by.items(), 42)
    ]
    found = said(both)
    assert (found.verdict, found.interval[0] < 0) == ("inconclusive", True)


def test_too_few_seeds_tell_nothing():
    found = said(pairs(0.5, 2))
    assert (found.verdict, found.seeds, found.spread) == ("inconclusive", 2, 0.0)
    assert said(pairs(0.5, 1)).interval is None


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        ((0, 0), "inside"),
        ((1, 0), "diverged"),
        ((2, 0), "diverged"),
        ((3, 0), "diverged"),
        ((3, 1), "diverged"),
        ((3, 2), "inconclusive"),
        ((0, 1), "inconclusive"),
        ((3, 3), "inconclusive"),
    ],
)
def test_diverged_is_what_diverges_more_than_bf16(lost, verdict):
    both = [
        (
            curve("fp8", seed=42 + n, nan=n < lost[0]),
            curve("bf16", (0.0, 0.002, -0.002)[n], seed=42 + n, nan=n < lost[1]),
        )
        for n in range(3)
    ]
    found = said(both)
    assert (found.verdict, found.diverged) == (verdict, lost)


@pytest.mark.parametrize(
    ("count", "verdict"), [(0, "inside"), (1, "inconclusive"), (2, "diverged")]
)
def test_a_loss_that_climbs_while_that_of_bf16_falls_is_lost(count, verdict):
    fp8, bf16 = zip(*pairs(), strict=True)
    wrong = [*map(climbing, fp8[:count]), *fp8[count:]]
    found = said(list(zip(wrong, bf16, strict=True)))
    assert (found.verdict, found.diverged) == (verdict, (count, 0))


def test_what_climbs_in_bf16_as_well_is_of_the_data():
    (fp8, bf16), *_ = pairs()
    assert fp8_diverged(climbing(fp8), bf16)
    assert not fp8_diverged(climbing(fp8), climbing(bf16))
    assert not fp8_diverged(fp8, climbing(bf16))


@pytest.mark.parametrize("bf16", [(2,), (0,), (3,)])
def test_one_nan_of_fp8_tells_nothing_where_a_run_of_bf16_has_one(bf16):
    both = [
        (curve("fp8", seed=42 + n, nan=n == 0), curve(seed=42 + n)) for n in range(3)
    ]
    runs = [curve(seed=42 + n, nan=n in bf16) for n in range(4)]
    both = [(fp8, runs[n]) for n, (fp8, _) in enumerate(both)]
    assert compare(both, runs, SEEDS).verdict == "inconclusive"


def run(losses, norms=None):
    losses = tuple(losses)
    how = course(steps=len(losses))
    return LossCurve("fp8", how, losses, tuple(norms or calm(len(losses))))


WILD = [6.3, 6.2, 5.2, 6.5, 7.0, 9.6, 12.0, 12.8, 12.0, 11.2, 10.1, 9.0]
WILD += [8.0, 7.1, 6.9, 7.2, 6.6, 6.2, 6.1, 5.8, 5.9, 5.9, 5.8, 5.7]
RISEN = [*falling()[:16], *(4.5 + 0.2 * n for n in range(16))]


@pytest.mark.parametrize(
    ("losses", "lost"),
    [
        (falling(), False),
        (falling(noise=0.05), False),
        (RISEN, True),
        ([6.0 + 0.2 * n for n in range(STEPS)], True),
        ([6.0] * STEPS, False),
        ([*falling()[:20], *[5.0] * 2, *falling()[22:]], False),
        ([5.0], False),
        # it rose and never came back, and it rose at first
        (WILD, True),
        ([6.0, 6.9, 7.3, 6.6, *falling()[4:]], False),
    ],
)
def test_a_run_that_forgets_what_it_learned_has_diverged(losses, lost):
    assert diverged(run(losses)) == lost


@pytest.mark.parametrize(("share", "lost"), [(0.9, False), (0.6, False), (0.3, True)])
def test_fp8_that_learns_less_than_half_of_what_bf16_does(share, lost):
    slow = run([6 - share * (6 - loss) for loss in falling()])
    assert fp8_diverged(slow, curve()) == lost
    assert not fp8_diverged(run([6.0] * STEPS), run([6.0] * STEPS))
    assert not fp8_diverged(slow, curve(nan=True))


def test_the_end_is_the_last_quarter():
    assert final_loss(run([9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 2.0, 4.0])) == 3.0


def test_spikes_are_counted_by_rows():
    noise = norm_noise(seeds())
    norms = list(calm())
    assert count_spikes(norms, noise) == 0
    for place in (12, 13, 25):
        norms[place] = 9.0
    assert count_spikes(norms, noise) == 2
    assert count_spikes(norms[:8], noise) == 0


def spiky(count):
    norms = list(calm())
    for n in range(count):
        norms[10 + 7 * n] = 9.0
    return tuple(norms)


@pytest.mark.parametrize(
    ("fp8", "bf16", "verdict"),
    [(1, 0, "inside"), (2, 0, "inconclusive"), (3, 0, "outside"), (3, 3, "inside")],
)
def test_spikes_beyond_chance_are_no_spread_of_seeds(fp8, bf16, verdict):
    both = [
        (one._replace(grad_norms=spiky(fp8)), other._replace(grad_norms=spiky(bf16)))
        for one, other in pairs()
    ]
    found = said(both)
    assert (found.verdict, found.spikes) == (verdict, (3 * fp8, 3 * bf16))


def test_losses_of_nothing_say_nothing():
    empty = tuple(0.0 for _ in range(STEPS))
    both = [(a._replace(losses=empty), b._replace(losses=empty)) for a, b in pairs(0.0)]
    assert said(both).verdict == "inconclusive"


def _rounded(loss):
    """As a loss that is computed in bf16: between 4 and 8 in steps of 1/32."""
    return round(loss * 32) / 32


def _runs(seed, climb):
    """Return FP8 and bf16 of a run; FP8 differs by little, and climbs after step 60."""
    chance = random.Random(seed)
    base = [5.545 + chance.gauss(0, 0.01) for _ in range(113)]
    low = [loss - 3 * (1 - math.exp(-i / 20)) for i, loss in enumerate(base)]
    known = low if climb else base
    fp8 = [
        _rounded(loss + chance.gauss(0, 0.004) + max(0, i - 60) * climb)
        for i, loss in enumerate(known)
    ]
    return fp8, list(map(_rounded, known))


@pytest.mark.parametrize(("climb", "found"), [(0.0, 0), (0.01, 100)])
def test_losses_in_bf16_diverge_only_if_they_climb(climb, found):
    """A step of 1/32 is rounding: as KempnerForge prints 5.5312, 5.5312, 5.5625."""
    runs = [_runs(seed, climb) for seed in range(100)]
    lost = [curves.diverged(f) or curves.fell_behind(f, b) for f, b in runs]
    assert sum(lost) == found


def test_without_gradient_norms_only_losses_are_compared():
    """Trials in the trainers of Hugging Face have none."""
    run = curve("fp8")
    record = from_data({"outcome": "nan", "knobs": {}, "losses": [*run.losses]})
    record = record._replace(outcome="ok", loss_run=run.loss_run)
    bare = loss_curve(record, "fp8")
    assert bare == run._replace(grad_norms=())
    both = [tuple(each._replace(grad_norms=()) for each in pair) for pair in pairs()]
    found = said(both)
    assert (found.verdict, found.spikes) == (said(pairs()).verdict, None)
    assert "spike" not in evidence(found)
    assert "no gradient spike" in evidence(said(pairs()))


REAL = recorded.pool(recorded.SEEDS)
"""Curves of real training on a CPU, recorded once (``benchmarks/README.md``)."""
NUMBERS = sorted(REAL.bf16)


def real(fp8, numbers):
    """FP8's runs beside bf16 of the same seeds."""
    return list(zip(fp8, map(REAL.bf16.get, numbers), strict=True))


@pytest.mark.parametrize("first", range(len(NUMBERS) - MAX_SEEDS))
def test_fp8_follows_bf16_of_the_same_seed(first):
    numbers = NUMBERS[first : first + MAX_SEEDS]
    found = said(real(map(REAL.fp8.get, numbers), numbers))
    low, high = found.interval
    assert found.verdict in ("inside", "inconclusive")
    assert high - low < found.spread / 2


def test_a_learning_rate_that_is_too_high_for_fp8_alone_diverges():
    wild = list(REAL.wild.values())[:SEEDS]
    found = said(real(wild, NUMBERS[:SEEDS]))
    assert (found.verdict, found.diverged) == ("diverged", (3, 0))


def test_one_such_run_among_three_does_not_pass():
    one, *rest = (REAL.fp8[number] for number in NUMBERS[:SEEDS])
    for wild in REAL.wild.values():
        found = said(real([wild, *rest], NUMBERS[:SEEDS]))
        assert (found.verdict, found.diverged) == ("inconclusive", (1, 0))
    assert said(real([one, *rest], NUMBERS[:SEEDS])).verdict == "inside"
