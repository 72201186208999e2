"""A storage whose server goes away; tests/cluster does it to a real one."""

import optuna
import pytest

from fp8tune.search.retrying import Outage, RetryingStorage


class Restarting(optuna.storages.InMemoryStorage):
    """A storage whose server is away for the first call of each kind that it gets."""

    def __init__(self):
        self.known = {"remove_session"}
        super().__init__()

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found) or name in self.known:
            return found
        self.known.add(name)

        def away(*_values, **_named):
            raise Outage("connection refused")

        return away


@pytest.mark.parametrize("storage", [optuna.storages.InMemoryStorage, Restarting])
def test_a_study_is_the_same_whether_the_server_goes_away(storage, monkeypatch):
    waits = []
    monkeypatch.setattr("fp8tune.search.retrying.time.sleep", waits.append)
    notes = []
    retrying = RetryingStorage(storage(), "the database", say=notes.append)
    sampler = optuna.samplers.RandomSampler(0)
    study = optuna.create_study(study_name="s", storage=retrying, sampler=sampler)
    study.set_user_attr("a", 1)
    study.optimize(lambda trial: trial.suggest_int("x", 1, 9), n_trials=3)
    numbers = [(trial.number, trial.state.name) for trial in study.trials]
    assert numbers == [(number, "COMPLETE") for number in range(3)]
    assert study.user_attrs == {"a": 1}
    assert optuna.get_all_study_names(retrying) == ["s"]
    optuna.delete_study(study_name="s", storage=retrying)
    assert optuna.get_all_study_names(retrying) == []
    assert bool(waits) == bool(notes) == (storage is Restarting)
    if notes:
        away = "the database does not answer (connection refused); trying again for"
        assert notes[0].startswith(away)
        assert notes[1].startswith("the database answers again after ")
