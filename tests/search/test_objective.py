"""Tokens per joule as the objective of a search."""

import pytest

from fp8tune.runners.driver import current
from fp8tune.search import CannotSearch
from fp8tune.search.machine import check_watts
from fp8tune.search.objective import (
    ENERGY,
    SPEED,
    by_objective,
    check_records,
)
from fp8tune.search.real_trials import this_machine
from tests.runners.fake_nvml import install
from tests.search.tries import (
    BEST,
    GIVEN,
    ran,
    trials,
)


def efficient(point, speed, tokens_per_joule):
    return ran(point, speed, more={"tokens_per_joule": tokens_per_joule})


@pytest.mark.parametrize("value", [None, 0, -1, "9", True])
def test_unknown_watts_are_no_measurement(value):
    (trial,) = by_objective(trials(("search", efficient(BEST, 150, value))), ENERGY)
    assert not trial.record.ok
    with pytest.raises(CannotSearch, match=r"1 trial of the records .* these out"):
        check_records(ENERGY, [efficient(BEST, 150, value)])


def test_the_objective_is_applied_once():
    """What it returns tells no tokens per joule that another pass could take."""
    (trial,) = by_objective(trials(("search", efficient(BEST, 150, 8.0))), ENERGY)
    assert (trial.record.ok, trial.record.tokens_per_second) == (True, 8.0)
    assert trial.record.tokens_per_joule == 0


def test_what_failed_stays_so():
    failed = trials(("search", ran(BEST, outcome="oom")))
    assert by_objective(failed, ENERGY) == failed
    check_records(ENERGY, [efficient(GIVEN, 100, 10.0), failed[0].record])


def test_a_rehearsal_knows_no_watts():
    machine = this_machine("cpu", watts=True)
    check_watts(SPEED, machine)
    with pytest.raises(CannotSearch, match="cannot measure watts"):
        check_watts(ENERGY, machine)


def test_a_gpu_whose_energy_is_not_counted(tmp_path, monkeypatch):
    tell = install(tmp_path, monkeypatch)
    check_watts(ENERGY, this_machine("cuda", watts=True))
    tell(counter_watts=None)
    current().look()  # the one that was on its way
    check_watts(SPEED, this_machine("cuda"))
    with pytest.raises(CannotSearch, match="does not count this GPU's energy"):
        check_watts(ENERGY, this_machine("cuda", watts=True))
