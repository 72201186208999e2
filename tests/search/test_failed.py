"""How a trial failed, in words that hold."""

import pytest

from fp8tune.search.failed import failed
from fp8tune.search.record import Record


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
    record = Record({}, outcome, step_ms=step_ms, more={"stage_reached": stage})
    assert failed(record) == words


def test_what_the_end_of_the_budget_did_is_no_fault_of_the_setting():
    record = Record({}, "launch", more={"cut_off": True, "stage_reached": "import"})
    assert failed(record) == "cut off by the end of the budget"


@pytest.mark.parametrize("kind", ["BadData", "ShortData"])
def test_data_that_does_not_suit_is_no_fault_of_any_code(kind):
    message = f"{kind}: token id 600, and the model has 512"
    record = Record({}, "user", more={"message": message})
    assert failed(record) == "the data of [data] does not suit the config"
