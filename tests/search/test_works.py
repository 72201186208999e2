"""Which settings need no further trial."""

import pytest

from fp8tune.search.retries import needs_no_trial
from fp8tune.trials.space import Knob, Space
from tests.search.tries import BEST, GIVEN, KNOBS, SPACE, ran


def runs(*pairs):
    return [(point, ran(point, outcome=outcome)) for point, outcome in pairs]


@pytest.mark.parametrize(
    ("outcomes", "shut"),
    [
        ([], False),
        (["ok"], True),
        (["nan"], True),
        (["compile"], True),
        (["user"], True),
        (["hang"], True),
        (["launch"], False),
        (["throttled"], False),
        (["throttled", "launch"], True),
        (["throttled", "ok"], True),
    ],
)
def test_what_was_tried_is_closed_unless_it_may_pass(outcomes, shut):
    tell = needs_no_trial(SPACE, runs(*((GIVEN, outcome) for outcome in outcomes)))
    assert tell(GIVEN) == shut
    assert not tell(BEST)


def test_a_larger_batch_than_one_without_memory_is_closed_in_its_cell():
    tell = needs_no_trial(SPACE, runs(((2, 1, 1, 1), "oom"), ((3, 0, 1, 1), "oom")))
    assert [tell((batch, 1, 1, 1)) for batch in range(4)] == [False, False, True, True]
    assert [tell((batch, 0, 1, 1)) for batch in range(4)] == [False] * 3 + [True]
    assert not tell((3, 1, 0, 1))


@pytest.mark.parametrize(
    ("outcomes", "shut"),
    [
        (["compile"], False),
        (["compile", "compile"], True),
        (["hang", "nan"], True),
        (["compile", "compile", "ok"], False),
        (["compile", "launch"], False),
        (["throttled", "launch"], False),
    ],
)
def test_a_cell_in_which_nothing_runs_is_closed(outcomes, shut):
    pairs = (((batch, 1, 1, 1), outcome) for batch, outcome in enumerate(outcomes))
    tell = needs_no_trial(SPACE, runs(*pairs))
    assert tell((3, 1, 1, 1)) == shut
    assert not tell((3, 0, 1, 1))


def test_without_batches_no_cell_is_closed():
    space = Space(KNOBS[1:3])
    tried = [(p, ran(p, outcome="compile", space=space)) for p in ((0, 0), (0, 1))]
    assert not needs_no_trial(space, tried)((1, 1))


def test_a_larger_batch_than_one_that_nearly_filled_the_gpu_is_closed():
    full = ran((1, 1, 1, 1), reserved_gib=130.0, more={"capacity_gib": 139.8})
    tell = needs_no_trial(SPACE, [((1, 1, 1, 1), full)])
    assert [tell((batch, 1, 1, 1)) for batch in range(4)] == [False, True, True, True]
    assert not tell((3, 0, 1, 1))


def test_a_batch_that_is_no_number_closes_only_itself():
    space = Space([Knob("train.batch_size", ("a", 4), "micro_batch")])
    tell = needs_no_trial(space, [((0,), ran((0,), outcome="oom", space=space))])
    assert (tell((0,)), tell((1,))) == (True, False)
