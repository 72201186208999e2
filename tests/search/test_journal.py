"""The study in Optuna's journal, as optuna-dashboard opens it."""

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from fp8tune.search.journal import NAME, Journal
from fp8tune.search.space import Knob, Space
from tests.search.tries import BEST, GIVEN, SPACE, TWIN, ran, trials

TRIALS = trials(
    ("given", ran(GIVEN, 100, peak_gib=33.0)),
    ("twin", ran(TWIN, outcome="oom")),
    ("search", ran(BEST, outcome="hang")),
)


def read(folder):
    storage = JournalStorage(JournalFileBackend(str(folder / NAME)))
    (summary,) = optuna.get_all_study_summaries(storage)
    return optuna.load_study(study_name=summary.study_name, storage=storage)


def seen(study):
    return [
        (trial.state.name, trial.values, trial.params, trial.user_attrs["outcome"])
        for trial in study.trials
    ]


EXPECTED = [
    ("COMPLETE", [100.0], SPACE.values(GIVEN), "ok"),
    ("PRUNED", None, SPACE.values(TWIN), "oom"),
    ("FAIL", None, SPACE.values(BEST), "hang"),
]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_trials_come_in_one_by_one(tmp_path):
    journal = Journal(str(tmp_path), SPACE)
    for count in range(1, 4):
        journal.write(TRIALS[:count])
        assert seen(read(tmp_path)) == EXPECTED[:count]
    study = read(tmp_path)
    assert study.best_params == SPACE.values(GIVEN)
    assert study.direction.name == "MAXIMIZE"


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("broken", [b"", b"{", b"\0\xff\n", None])
def test_a_broken_journal_is_made_anew(tmp_path, broken):
    Journal(str(tmp_path), SPACE).write(TRIALS[:1])
    if broken is not None:
        (tmp_path / NAME).write_bytes(broken)
    Journal(str(tmp_path), SPACE).write(TRIALS)
    assert seen(read(tmp_path)) == EXPECTED


def test_a_folder_that_cannot_be_written_to_is_no_matter(tmp_path):
    (tmp_path / "file").write_text("")
    Journal(str(tmp_path / "file"), SPACE).write(TRIALS)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_what_ended_early_is_pruned(tmp_path):
    cut = trials(("search", ran(BEST, 90, more={"censored": True})))
    Journal(str(tmp_path), SPACE).write(cut)
    assert seen(read(tmp_path)) == [("PRUNED", None, SPACE.values(BEST), "ok")]


def test_values_of_all_types(tmp_path):
    space = Space([Knob("x", (1, True, 1.5, "1", None))])
    found = trials(*(("search", ran((i,), space=space)) for i in range(5)), space=space)
    Journal(str(tmp_path), space).write(found)
    assert (tmp_path / NAME).stat().st_size > 100
