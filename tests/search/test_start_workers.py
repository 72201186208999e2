"""Who starts the workers of a search, and what is said before they run."""

import errno

import pytest

from fp8tune.search import CannotSearch
from fp8tune.search.members import Members
from fp8tune.search.options import NO_WORKERS, SearchOptions
from fp8tune.search.start_workers import (
    check_workers,
    how_to_join,
    more_gpus_note,
    new_study_note,
    with_worker,
)
from fp8tune.search.study import Study
from tests.each import each
from tests.report.studies import plan, study
from tests.runners import fake_smi
from tests.sample import SMALL_MODEL

SALLOC = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS": "8"}
ONE_NODE = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURMD_NODENAME": "n1",
    "SLURM_GPUS_ON_NODE": "4",
}


@each(
    ("budget", "heartbeat", "most"),
    [
        ("40s", "10s", ""),  # the default, whatever the budget
        ("2h", "2m", ""),
        ("2h", "121s", "after 12 min of a budget of 2 h 0 min; give 120s or less"),
        ("4m", "1h", "after 6 h 0 min of a budget of 4 min; give 10s or less"),
    ],
)
def test_a_lost_worker_is_noticed_in_a_tenth_of_the_budget(budget, heartbeat, most):
    options = SearchOptions("a.toml", budget, workers=2, heartbeat=heartbeat)
    if not most:
        check_workers(options)
        return
    with pytest.raises(CannotSearch) as error:
        check_workers(options)
    noticed = f"--heartbeat {heartbeat}: a lost worker would be noticed {most}"
    assert str(error.value) == noticed


@each(
    ("asked", "workers"),
    [
        ({"storage": "postgresql://db/tuning"}, 1),
        ({"storage": "/shared/x.journal"}, 1),
        ({"storage": "postgresql://db/tuning", "workers": 0}, 0),
        ({"storage": "postgresql://db/tuning", "gpus": "0,1"}, NO_WORKERS),
        ({"storage": "postgresql://db/tuning", "runner": "replay"}, NO_WORKERS),
        ({"storage": "sqlite:///x.db"}, NO_WORKERS),
        ({}, NO_WORKERS),
    ],
)
def test_where_others_may_search_too_a_worker_runs_the_trials(asked, workers):
    assert with_worker(SearchOptions("a.toml", "2h", **asked)).workers == workers


@each(
    ("place", "said"),
    [
        (
            "/a b/study.journal",
            "in this folder: fp8tune worker --storage '/a b/study.journal' --study a-1",
        ),
        (
            "postgresql://db/tuning",
            "in this folder: fp8tune worker --storage postgresql://db/tuning "
            "--study a-1",
        ),
        (
            "postgresql://me:secret@db/tuning",
            "in this folder and with FP8TUNE_STORAGE=postgresql://me:***@db/tuning: "
            "fp8tune worker --study a-1",
        ),
    ],
)
def test_how_a_worker_is_started(place, said):
    waits = "waits for workers; start one for each GPU, "
    assert how_to_join(place, "a-1") == f"{waits}{said}"


@each(
    ("machine", "other", "text", "note"),
    [
        ("", "H200", "", "a new study: a-1 was measured on this machine, and"),
        ("H200", "", "", "a new study: a-1 was measured by workers that may run on"),
        ("H200", "H100", "", "a new study: changed since a-1: machine"),
        ("", "H200", "# a comment\n", "a new study: the text of a.toml changed since"),
    ],
)
def test_an_earlier_study_that_is_not_continued_is_named(
    tmp_path_factory, machine, other, text, note
):
    folder = tmp_path_factory.mktemp("s")
    study(folder / "a-1", [], plan(), machine=other)
    study(folder / "b-2", [], plan(), machine=other)
    made = plan(f"{text}{plan().config.data.decode()}")
    own = Study(made.space, study(folder / "a-3", [], made, machine=machine))
    options = SearchOptions("a.toml", "2h", studies=str(folder), workers=0)
    found = new_study_note(own, options)
    assert found.startswith(note)
    assert bool(found) == bool(note)


def test_a_study_of_the_same_folder_in_another_storage_is_named(tmp_path):
    folder, url = study(tmp_path / "a-1", []), f"sqlite:///{tmp_path}/x.db"
    Study(plan().space, folder).export(f"{folder}/trials.jsonl")
    own = Study(plan().space, folder, url)
    own.take_up()
    options = SearchOptions("a.toml", "2h", studies=str(tmp_path), storage=url)
    assert new_study_note(own, options) == (
        "a new study: the same search had another --storage, and its report in "
        f"{folder} will be replaced"
    )
    own.take_up()
    assert new_study_note(own, options) == ""


def test_a_worker_that_finds_no_study_says_what_is_missing(fp8tune, project, tmp_path):
    project({"a.toml": ""})
    assert "no study a in " in fp8tune("worker", "--study", "a").err
    (tmp_path / ".fp8tune/a-1").mkdir(parents=True)
    done = fp8tune("worker", "--study", "a")
    message = ".fp8tune/a-1: no study.journal in it; give its --storage"
    assert (done.code, done.err) == (2, f"fp8tune: {message}\n")
    study(".fp8tune/a-2", [])
    done = fp8tune("worker", "--study", "a-2")
    assert "study a-2 takes no workers" in done.err


def test_a_worker_without_a_gpu_does_not_join(fp8tune, project, tmp_path, monkeypatch):
    """It would be the first, and every worker with a GPU would be refused after it."""
    fake_smi.script(tmp_path, monkeypatch, "exit 0")
    project({})
    own = Study(plan().space, study(".fp8tune/a-1", []))
    members = Members(own.storage, own.name, own.place)
    members.describe({"options": SearchOptions("a.toml", "2h", workers=0)._asdict()})
    done = fp8tune("worker", "--study", "a-1")
    why = "no NVIDIA GPU found here; start workers on GPU nodes"
    assert (done.code, done.err) == (2, f"fp8tune: {why}\n")
    assert members.others() == []


def test_workers_that_cannot_be_started_leave_no_study(
    fp8tune, project, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", "/nowhere")  # no Slurm here
    project({"a.toml": f"{SMALL_MODEL}[train]\nseq_len = 32\n"})
    search = ("search", "a.toml", "--budget", "3m", "--device", "cpu")
    done = fp8tune(*search, "--slurm", "partition=gpu")
    assert "no squeue on this machine" in done.err
    done = fp8tune(*search, "--storage", "postgresql//db/x")
    assert "there is no folder postgresql//db; create it" in done.err
    assert [path.name for path in (tmp_path / ".fp8tune").iterdir()] == [".gitignore"]


@each(
    ("environment", "asked", "visible", "note"),
    [
        ({}, {}, 2, "this machine has 2 GPUs; --gpus all uses them"),
        ({}, {"workers": 1}, 2, "this machine has 2 GPUs; --gpus all uses them"),
        (SALLOC, {}, 1, "this job has 8 GPUs; --gpus all uses them"),
        (ONE_NODE, {}, 4, "this job has 4 GPUs; --gpus all uses them"),
        (ONE_NODE, {}, 1, ""),  # CUDA_VISIBLE_DEVICES names one
        ({}, {"gpus": "0"}, 2, ""),
        ({}, {"workers": 2}, 4, ""),
        ({}, {"slurm": "gpus=1"}, 4, ""),
        ({}, {"device": "cpu"}, 2, ""),
    ],
)
def test_gpus_that_stay_idle_are_named(environment, asked, visible, note):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SLURM_JOB_ID", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        options = SearchOptions("a.toml", "2h", **asked)
        assert more_gpus_note(options, visible, 1) == note
    assert more_gpus_note(options, visible, 8) == ""


def test_workers_on_a_file_system_without_locks_are_refused(
    fp8tune, project, tmp_path, monkeypatch
):
    def flock(_file, _operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    project({"a.toml": f"{SMALL_MODEL}[train]\nseq_len = 32\n"})
    monkeypatch.setattr("fcntl.flock", flock)
    search = ("search", "a.toml", "--budget", "3m", "--device", "cpu")
    done = fp8tune(*search, "--workers", "2")
    why = (
        "study.journal: this file system has no file locks, and workers need them; use "
        "--storage postgresql://HOST/DATABASE\n"
    )
    assert (done.code, done.err.endswith(why)) == (2, True)
    assert [path.name for path in (tmp_path / ".fp8tune").iterdir()] == [".gitignore"]
    study(".fp8tune/a-2", [])
    done = fp8tune("worker", "--study", "a-2")
    assert (done.code, done.err) == (2, f"fp8tune: .fp8tune/a-2/{why}")
