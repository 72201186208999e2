"""A storage whose server goes away; tests/cluster does it to a real one."""

import optuna
import pytest
import sqlalchemy

from fp8tune.search.retrying import Outage, RetryingStorage, raise_outages


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


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_a_signal_in_a_statement_is_no_outage(signal):
    """The engine calls the connection lost, as it does when the server goes away."""

    def interrupt(*_):
        raise signal

    raise_outages(engine := sqlalchemy.create_engine("sqlite://"))
    sqlalchemy.event.listen(engine, "do_execute", interrupt)
    with engine.connect() as connection, pytest.raises(signal):
        connection.execute(sqlalchemy.text("SELECT 1"))
