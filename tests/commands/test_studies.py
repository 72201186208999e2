"""``fp8tune studies``: studies in a database, and how one is deleted."""

import optuna
import pytest

from fp8tune.search.members import Members
from fp8tune.search.storage import alone_in, open_storage
from fp8tune.search.study import Study
from tests.report.studies import CONFIG, WHOLE, plan, study

URL = "sqlite:///x.db"


@pytest.fixture
def here(project):
    project({"a.toml": CONFIG})
    study(".fp8tune/a-1", output=None)


@pytest.fixture
def stored(here):
    """Another study, in a database; its name begins the same."""
    made = plan()
    with alone_in(".fp8tune/a-12"):
        kept = Study(made.space, ".fp8tune/a-12", URL)
    kept.describe(made.about(device="cuda", allow=[], output=""))
    kept.add(*WHOLE[0])
    Members(open_storage(URL, create=False), "a-12", URL)
    return optuna.storages.get_storage(URL)


def names(fp8tune, *options):
    done = fp8tune("studies", *options)
    return [line.split("  ")[0] for line in done.out.splitlines()[::2]], done.code


def test_a_study_in_a_database_is_listed_with_its_storage(fp8tune, stored, monkeypatch):
    assert names(fp8tune) == (["a-1"], 1)
    assert names(fp8tune, "--storage", URL) == (["a-1", "a-12"], 0)
    monkeypatch.setenv("FP8TUNE_STORAGE", URL)
    assert names(fp8tune) == (["a-1", "a-12"], 0)
    assert fp8tune("report", "a-12").code == 0


def test_a_study_is_deleted(fp8tune, here, tmp_path):
    done = fp8tune("studies", "--delete", "a-1")
    assert (done.code, done.out, done.err) == (0, "deleted .fp8tune/a-1\n", "")
    assert not (tmp_path / ".fp8tune/a-1").exists()


def test_a_study_is_deleted_from_its_database_too(fp8tune, stored, tmp_path):
    done = fp8tune("studies", "--delete", ".fp8tune/a-12", "--storage", URL)
    assert (done.code, done.out) == (0, "deleted .fp8tune/a-12\n")
    assert optuna.get_all_study_names(stored) == []
    assert not (tmp_path / ".fp8tune/a-12").exists()
    assert names(fp8tune) == (["a-1"], 0)


def test_what_is_not_deleted(fp8tune, stored, tmp_path):
    def said(*options):
        done = fp8tune("studies", "--delete", *options)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    assert "--delete a-: no such study; fp8tune studies lists them" in said("a-")
    assert "no such study" in said("..")
    assert "a study in a database needs --storage URL" in said("a-12")
    assert f"{URL}: no study a-1 here" in said("a-1", "--storage", URL)
    with alone_in(".fp8tune/a-1"):
        assert "another search is running in it" in said("a-1")
    place = ".fp8tune/a-1/study.journal"
    worker = Members(open_storage(place, create=False), "a-1", place)
    worker.describe({})
    with worker.joined({"role": "worker"}):
        assert "a search is running on it; end that first" in said("a-1")
    study("sub/.fp8tune/a-1", [])
    assert "several studies have this name" in said("a-1")
    folders = {path.name for path in (tmp_path / ".fp8tune").iterdir()}
    assert folders == {".gitignore", "a-1", "a-12"}
