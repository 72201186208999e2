"""How a trial failed, in words that hold."""

import pytest

from fp8tune.search.failed import failed
from tests.search.tries import GIVEN, ran, trials


@pytest.mark.parametrize(
    ("outcome", "step_ms", "stage", "words"),
    [
        ("launch", (), "build", "did not start"),
        ("launch", (), None, "did not start"),
        ("launch", (), "steady", "died in its steps"),
        ("launch", (9.0,), None, "does not count"),
        ("oom", (), "steady", "out of memory"),
    ],
)
def test_what_is_said_of_a_failure(outcome, step_ms, stage, words):
    record = ran(GIVEN, outcome=outcome, step_ms=step_ms, stage_reached=stage)
    assert failed(*trials(("search", record))) == words


def test_what_the_end_of_the_budget_did_is_no_fault_of_the_setting():
    record = ran(GIVEN, outcome="launch", cut_off=True, stage_reached="import")
    assert failed(*trials(("search", record))) == "cut off by the end of the budget"


@pytest.mark.parametrize("kind", ["BadData", "ShortData"])
def test_data_that_does_not_suit_is_no_fault_of_any_code(kind):
    message = f"{kind}: token id 600, and the model has 512"
    record = ran(GIVEN, outcome="user", message=message)
    assert (
        failed(*trials(("search", record)))
        == "the data of [data] does not suit the config"
    )
