"""Tokens per joule as the objective of a search."""

import pytest

from fp8tune.runners.driver import current
from fp8tune.search import CannotSearch
from fp8tune.search.answer.decide import decide
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
    OTHER,
    confirmed,
    history_of,
    ran,
    trials,
)


def efficient(point, speed, tokens_per_joule):
    return ran(point, speed, more={"tokens_per_joule": tokens_per_joule})


TRIED = trials(
    *confirmed(
        efficient(GIVEN, 100, 10.0),
        efficient(BEST, 150, 8.0),
        efficient(OTHER, 90, 13.0),
    )
    * 2
)


@pytest.mark.parametrize(
    ("objective", "chosen", "speed"), [(SPEED, BEST, 150), (ENERGY, OTHER, 90)]
)
def test_the_objective_decides_and_speeds_stay_speeds(objective, chosen, speed):
    found = decide(history_of(TRIED), 1.0, objective)
    assert (found.chosen, found.verdict) == (chosen, "faster")
    assert found.objective == objective
    assert (found.speed.chosen.value, found.speed.baseline.value) == (speed, 100)
    best = {BEST: 8.0, OTHER: 13.0}[chosen]
    assert (found.energy.chosen.value, found.energy.baseline.value) == (best, 10.0)


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
    check_records(ENERGY, [trial.record for trial in (*TRIED, *failed)])


@pytest.mark.parametrize("objective", [SPEED, ENERGY])
def test_a_rehearsal_knows_no_watts(objective):
    if objective == SPEED:
        check_watts(objective, this_machine("cpu", watts=True))
    else:
        with pytest.raises(CannotSearch, match="cannot measure watts"):
            check_watts(objective, this_machine("cpu", watts=True))


def test_a_gpu_whose_energy_is_not_counted(tmp_path, monkeypatch):
    tell = install(tmp_path, monkeypatch)
    check_watts(ENERGY, this_machine("cuda", watts=True))
    tell(counter_watts=None)
    current().look()  # the one that was on its way
    check_watts(SPEED, this_machine("cuda"))
    with pytest.raises(CannotSearch, match="does not count this GPU's energy"):
        check_watts(ENERGY, this_machine("cuda", watts=True))
