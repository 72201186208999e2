"""Published linears, and what one run of a family says of the others."""

import itertools

import pytest

from benchmarks.estimates.peaks import points
from benchmarks.estimates.speeds import DATA, TORCHAO, others, steps, tokens_per_second
from fp8tune.facts.calibration import Band, corrected
from fp8tune.facts.gemm_speed import ERROR, tensorwise
from fp8tune.facts.off import Measured
from fp8tune.facts.runs import MEMORY, SPEED
from tests.each import each


@each("row", DATA["gemm"], ids=lambda row: f"{row['m']}")
def test_published_tensorwise_linears_are_met_within_the_error(row):
    predicted = tensorwise(row["m"], row["k"], row["n"])
    assert predicted == pytest.approx(row["speedup"], rel=ERROR)


def wrong_after_one_run(quantity, groups):
    """Runs that the band after a single other run of their group does not hold."""
    for pairs in groups.values():
        for (_, one), (name, other) in itertools.permutations(pairs, 2):
            peak = other.predicted
            wide = Band(peak, 0.3 * peak, 3 * peak)
            found = corrected(quantity, wide, [one])
            if not found.low <= other.measured <= found.high:
                yield name


def grouped(entries):
    groups = {}
    for group, name, predicted, measured in entries:
        groups.setdefault(group, []).append((name, Measured("", predicted, measured)))
    return groups


def test_one_run_corrects_the_memory_of_all_others_of_its_family():
    entries = [
        (p.group, p.name, p.predicted, p.measured)
        for p in points()
        if p.measured and p.group != "small"
    ]
    wrong = list(wrong_after_one_run(MEMORY, grouped(entries)))
    assert {n for n in wrong if wrong.count(n) > 1} <= {"vlm_7b_siglip2_cross_attn"}


def test_one_run_corrects_the_speed_of_all_others_of_its_family():
    entries = [
        (
            (run.group, run.step.tp > 1, run.step.forwards),
            run.name,
            tokens,
            run.measured,
        )
        for run in (*steps(), *others())
        for tokens in [tokens_per_second(run, TORCHAO)]
    ]
    wrong = list(wrong_after_one_run(SPEED, grouped(entries)))
    assert {name for name in wrong if wrong.count(name) > 1} == set()
