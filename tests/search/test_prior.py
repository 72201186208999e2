"""What the facts expect of a config with other values in it."""

import pytest

from fp8tune.job import Job, Source, Target, vocabulary
from fp8tune.search.prior import card_gib, prior_of_job, with_speeds
from fp8tune.search.sampler import Expected
from fp8tune.trials.space import Knob, Space

SPACE = Space([Knob("train.batch_size", (1, 2, 4), "micro_batch")])


def job_of(computed, **target):
    named = {
        name: Source(call, ("train_batch_size",)) for name, call in computed.items()
    }
    words = vocabulary(frozenset(["train.batch_size"]), {}, named)
    return Job(words, {"train.batch_size": 2}, set(), Target(**target))


def test_facts_are_asked_with_the_points_values():
    job = job_of(
        {
            "memory.peak_gib": lambda train_batch_size: 10.0 + train_batch_size,
            "speed.tokens_per_second": lambda train_batch_size: 7 * train_batch_size,
        }
    )
    assert job["memory.peak_gib"] == 12
    expect = prior_of_job(SPACE, job)
    assert [expect((i,)) for i in range(3)] == [
        Expected(11.0, 7.0),
        Expected(12.0, 14.0),
        Expected(14.0, 28.0),
    ]
    assert job["train.batch_size"] == 2


@pytest.mark.parametrize("value", [-1.0, 0, float("nan"), float("inf"), "12", None])
def test_what_is_no_figure_is_not_expected(value):
    job = job_of({"memory.peak_gib": lambda train_batch_size: value})
    assert prior_of_job(SPACE, job)((0,)) == Expected()


def test_without_facts_nothing_is_expected(job):
    assert prior_of_job(SPACE, job_of({}))((0,)) == Expected()


def test_the_gpu_of_the_job(job):
    assert card_gib(job("[train]\n", gpu="h100")) == pytest.approx(79.11)
    assert card_gib(job("[train]\n")) == 0


def test_fp8_without_compile_is_expected_to_be_as_fast_as_bf16_without_it():
    compiles = Knob("train.compile_model", (False, True), "compile")
    precisions = Knob("train.mixed_precision", ("fp8", "bf16"), "precision", True)
    space = Space([compiles, precisions])
    tokens = {(0, 0): 0.0, (0, 1): 300.0, (1, 0): 600.0, (1, 1): 450.0}
    expected = with_speeds(
        space, lambda point: Expected(10.0, tokens[point]), space.points((1, 0))
    )
    speeds = {point: one.tokens_per_second for point, one in expected.items()}
    assert speeds == {**tokens, (0, 0): 300.0}
