"""How a trial failed."""

import pytest

from fp8tune.search.outcome import failure
from tests.search.tries import GIVEN, ran, trials


@pytest.mark.parametrize(
    ("outcome", "step_ms", "stage", "how"),
    [
        ("launch", (), "build", "launch"),
        ("launch", (), None, "launch"),
        ("launch", (), "steady", "died-in-its-steps"),
        ("launch", (9.0,), None, "does-not-count"),
        ("oom", (), "steady", "oom"),
    ],
)
def test_a_failure_has_a_code(outcome, step_ms, stage, how):
    record = ran(GIVEN, outcome=outcome, step_ms=step_ms, stage_reached=stage)
    assert failure(*trials(("search", record))) == how


def test_what_the_end_of_the_budget_did_is_no_fault_of_the_setting():
    record = ran(GIVEN, outcome="launch", cut_off=True, stage_reached="import")
    assert failure(*trials(("search", record))) == "cut-off"


@pytest.mark.parametrize("kind", ["BadData", "ShortData"])
def test_data_that_does_not_suit_is_no_fault_of_any_code(kind):
    record = ran(GIVEN, outcome="user", error=kind)
    assert failure(*trials(("search", record))) == "wrong-data"
