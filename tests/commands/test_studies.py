"""``fp8tune studies``: studies in a database, and how one is deleted."""

import optuna
import pytest

from fp8tune.search.storage import alone_in
from fp8tune.search.study import Study
from tests.report.studies import CONFIG, WHOLE, plan, study
from tests.search.tries import BEST, planned

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
    about = made.about(device="cuda", allow=[], output="")
    kept.describe({**about, "searched_in": "vm:/u/.fp8tune/a-12"})
    kept.add(*WHOLE[0])
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
    assert fp8tune("report", "a-1").code == 0  # it is in its folder


def test_a_study_of_another_folder_is_read_and_deleted(
    fp8tune, stored, tmp_path, monkeypatch
):
    url = f"sqlite:///{tmp_path}/x.db"
    optuna.create_study(storage=stored, study_name="of somebody else")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    place = f"{url}, last searched in vm:/u/.fp8tune/a-12"
    done = fp8tune("studies", "--storage", url)
    first, _, last = done.out.splitlines()
    assert first == "a-12  a.toml, finished, 1 trial, 60 s"
    assert last == f"  in {place}"
    (one,) = fp8tune("studies", "--storage", url, "--output-format", "json").json[
        "studies"
    ]
    assert (one["name"], one["folder"], one["place"]) == ("a-12", "", place)
    assert "no study b in " in fp8tune("report", "b", "--storage", url).err
    page = ".fp8tune/a-12/report.html"
    assert fp8tune("report", "a-", "--storage", url).out == f"{page}\n"
    assert fp8tune("studies", "--delete", "a-12", "--storage", url).out == (
        f"deleted .fp8tune/a-12 and study a-12 in {place}\n"
    )


def test_a_study_that_is_here_and_in_the_storage(fp8tune, stored):
    study(".fp8tune/a-12", output=None)
    listed = [("a-1", 0), ("a-12", 0), ("a-12", 1)]
    data = fp8tune("studies", "--storage", URL, "--output-format", "json").json
    assert [(s["name"], bool(s["place"])) for s in data["studies"]] == listed
    done = fp8tune("studies", "--delete", "a-12", "--storage", URL)
    assert "several studies have this name: .fp8tune/a-12, the storage's" in done.err
    path = ".fp8tune/a-12"
    done = fp8tune("studies", "--delete", path, "--storage", URL)
    assert done.out == f"deleted {path}\n"
    done = fp8tune("studies", "--delete", "a-12", "--storage", URL)
    assert done.out.startswith(f"deleted study a-12 in {URL}, last searched in ")
    assert names(fp8tune, "--storage", URL) == (["a-1"], 0)


def test_a_storage_that_does_not_answer(fp8tune, here):
    for options in ([], ["--delete", "a-1"]):
        done = fp8tune("studies", "--storage", "sqlite:///none.db", *options)
        assert (done.code, done.out) == (2, "")
        assert done.err == "fp8tune: sqlite:///none.db: no such file\n"
    done = fp8tune("studies", "--storage", "mongo://host/x")
    assert (done.code, done.out) == (2, "")


def test_a_study_is_deleted(fp8tune, here, tmp_path):
    done = fp8tune("studies", "--delete", "a-1")
    assert (done.code, done.out, done.err) == (0, "deleted .fp8tune/a-1\n", "")
    assert not (tmp_path / ".fp8tune/a-1").exists()


def test_a_study_is_deleted_from_its_database_too(fp8tune, stored, tmp_path):
    done = fp8tune("studies", "--delete", ".fp8tune/a-12", "--storage", URL)
    what = f"study a-12 in {URL}, last searched in vm:/u/.fp8tune/a-12"
    assert (done.code, done.out) == (0, f"deleted .fp8tune/a-12 and {what}\n")
    assert optuna.get_all_study_names(stored) == []
    assert not (tmp_path / ".fp8tune/a-12").exists()
    assert names(fp8tune) == (["a-1"], 0)


def test_what_is_not_deleted(fp8tune, stored, tmp_path):
    def said(*options):
        done = fp8tune("studies", "--delete", *options)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    assert "--delete a-: the whole name is needed, such as a-1;" in said("a-")
    assert "no such study" in said("..")
    assert "a study in a database needs --storage URL" in said("a-12")
    with alone_in(".fp8tune/a-1"):
        assert "another search is running in it" in said("a-1")
    worker = Study(plan().space, ".fp8tune/a-1")
    with worker.beating(worker.ask(planned(BEST, worker="vm GPU 0"))):
        assert "a search is running on it; end that first" in said("a-1")
    study("sub/.fp8tune/a-1", [])
    assert "several studies have this name" in said("a-1")
    folders = {path.name for path in (tmp_path / ".fp8tune").iterdir()}
    assert folders == {".gitignore", "a-1", "a-12"}
