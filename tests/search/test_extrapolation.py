"""Figures of one GPU that stands for many are never shown as measured ones."""

import pytest

from fp8tune.job import Target
from fp8tune.search.answer.decide import decide
from fp8tune.search.answer.stored import as_json
from fp8tune.search.answer.wording import closing
from fp8tune.search.loop import Event
from fp8tune.search.plan import Plan, read_config
from fp8tune.search.write.comments import summary
from fp8tune.search.write.output import progress
from fp8tune.trials.order import PlannedTrial
from tests.search.tries import BEST, GIVEN, SPACE, history_of, ran, trials

CONFIG = b"[train]\nbatch_size = 2\nmixed_precision = 'fp8'\n[scheduler]\n"
HOW = "rank 0 of 16, plus 3.0 ms of communication a step by published bandwidths"


@pytest.fixture
def plan():
    return Plan(read_config("a.toml", CONFIG, Target("", 1)), SPACE, GIVEN)


def known(error):
    more = {"extrapolated": HOW, "extrapolation_error": error}
    return trials(
        ("baseline", ran(GIVEN, 10_000, more=more)),
        ("search", ran(BEST, 15_000, more=more)),
    )


@pytest.mark.parametrize(
    ("error", "short", "whole"),
    [
        (
            0.04,
            "15,000 tokens/s (extrapolated, +-4.0 %), 60 s",
            f"extrapolated (+-4.0 % tokens/s): {HOW}",
        ),
        (
            None,
            "15,000 tokens/s (extrapolated, error unknown), 60 s",
            f"extrapolated (error unknown): {HOW}",
        ),
    ],
)
def test_it_is_said_wherever_the_figure_is(plan, error, short, whole):
    tried = known(error)
    found = decide(history_of(tried), 120.0)
    planned = PlannedTrial(BEST, "search", "gain")
    line = progress(Event(1, planned, tried[1], 60.0), plan)
    assert line.strip() == short
    assert whole in closing(found, plan, "")
    assert as_json(found, plan, "", "s")["extrapolated"] == {
        "how": HOW,
        "error": error,
    }
    block = "\n".join(summary(plan, found, "s", ()))
    assert all(said in block for said in (whole, short.removesuffix(", 60 s")[16:]))


def test_a_measured_figure_is_not_marked(plan):
    tried = trials(("baseline", ran(GIVEN, 100)), ("search", ran(BEST, 150)))
    found = decide(history_of(tried), 120.0)
    assert not any("extrapolated" in line for line in closing(found, plan, ""))
    assert as_json(found, plan, "", "s")["extrapolated"] is None
