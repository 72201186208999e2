"""Who starts the workers of a search, and what is said before they run."""

import errno

import pytest

from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.options import SearchOptions
from fp8tune.search.plan import config_to_search, plan_for_trials
from fp8tune.search.start_workers import (
    check_workers,
    command_to_join,
    how_to_join,
    more_gpus_note,
    new_study_note,
)
from fp8tune.search.start_workers import is_shared as is_shared_by
from fp8tune.search.study import Study
from tests.each import each
from tests.report.studies import plan, study
from tests.runners import fake_nvml
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
    ("asked", "is_shared"),
    [
        ({"storage": "postgresql://db/tuning"}, True),
        ({"storage": "/shared/x.journal"}, True),
        ({"storage": "postgresql://db/tuning", "runner": "replay"}, False),
        ({"storage": "sqlite:///x.db"}, False),
        ({}, False),
    ],
)
def test_a_study_that_is_not_only_in_its_folder_is_shared(asked, is_shared):
    assert is_shared_by(SearchOptions("a.toml", "2h", **asked)) == is_shared


def test_who_joins_types_the_same_command():
    """Without what is for the one that writes the answer, and knows where it goes."""
    options = SearchOptions(
        "a b.toml",
        "2h",
        device="cpu",
        allow=("precision", "warmup"),
        allow_versions=True,
        workers=2,
        storage="postgresql://me:secret@db/tuning",
        output="x.toml",
        heartbeat="5s",
        overrides=("--train.seed=1",),
    )
    assert command_to_join(options, "a-1") == [
        *("search", "a b.toml", "--budget", "2h", "--device", "cpu"),
        *("--allow", "precision", "--allow", "warmup", "--allow-versions"),
        *("--heartbeat", "5s", "--study", "a-1", "--", "--train.seed=1"),
    ]


@each(
    ("place", "said"),
    [
        (
            "/a b/study.journal",
            "in this folder: fp8tune search a.toml --storage '/a b/study.journal' "
            "--study a-1",
        ),
        (
            "postgresql://db/tuning",
            "in this folder: fp8tune search a.toml --storage postgresql://db/tuning "
            "--study a-1",
        ),
        (
            "postgresql://me:secret@db/tuning",
            "in this folder and with FP8TUNE_STORAGE=postgresql://me:***@db/tuning: "
            "fp8tune search a.toml --study a-1",
        ),
    ],
)
def test_how_a_worker_is_started(place, said):
    waits = "waits for workers; start one for each GPU, "
    words = ["search", "a.toml", "--study", "a-1"]
    assert how_to_join(place, words) == f"{waits}{said}"


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


def joining(study):
    return ("search", "a.toml", "--budget", "3m", "--study", study)


def test_who_finds_no_study_to_join_is_told_what_is_missing(fp8tune, project, tmp_path):
    project({"a.toml": ""})
    assert "no study a in " in fp8tune(*joining("a")).err
    (tmp_path / ".fp8tune/a-1").mkdir(parents=True)
    done = fp8tune(*joining("a"))
    message = ".fp8tune/a-1: no study.journal in it; give its --storage"
    assert (done.code, done.err) == (2, f"fp8tune: {message}\n")


def test_a_machine_without_a_gpu_does_not_join(fp8tune, project, tmp_path, monkeypatch):
    """It would be the first, and every one with a GPU would be refused after it."""
    fake_nvml.install(tmp_path, monkeypatch, count=0)
    project({"a.toml": ""})
    own = Study(plan().space, study(".fp8tune/a-1", []))
    done = fp8tune(*joining("a-1"))
    why = "no NVIDIA GPU found here; start workers on GPU nodes"
    assert (done.code, done.err) == (2, f"fp8tune: {why}\n")
    assert "environment" not in own.optuna.user_attrs


def test_a_machine_that_measures_with_something_else_is_refused(tmp_path):
    first, second = (Study(plan().space, str(tmp_path / "a-1")) for _ in range(2))
    first.take_up()
    first.join({"machine": "H200", "torch": "2.13.0"})
    second.join({"machine": "H200", "torch": "2.13.0"})
    assert (first.process, second.process) == (0, 0)
    why = "this machine cannot take part: its machine is 'H100', this search measures"
    with pytest.raises(CannotSearch, match=f"{why} with 'H200'"):
        second.join({"machine": "H100", "torch": "2.13.0"})


def test_workers_that_cannot_be_started_leave_no_study(
    fp8tune, project, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", "/nowhere")  # no Slurm here
    project({"a.toml": f"{SMALL_MODEL}[train]\nseq_len = 32\n"})
    search = ("search", "a.toml", "--budget", "3m", "--device", "cpu")
    done = fp8tune(*search, "--slurm", "partition=gpu")
    assert "no sbatch on this machine" in done.err
    done = fp8tune(*search, "--storage", "postgresql//db/x")
    assert "there is no folder postgresql//db; create it" in done.err
    assert [path.name for path in (tmp_path / ".fp8tune").iterdir()] == [".gitignore"]


@each(
    ("environment", "asked", "visible", "note"),
    [
        ({}, {}, 2, "this machine has 2 GPUs; --gpus all uses them"),
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
    done = fp8tune(*joining("a-2"))
    assert (done.code, done.err) == (2, f"fp8tune: .fp8tune/a-2/{why}")


def test_another_training_file_is_told_in_plain_words(project):
    """Its study has the name of the launch file, which did not change."""
    launch = 'distributed_type: "NO"\nmixed_precision: bf16\nnum_processes: 1\n'
    sft = "model_name_or_path: a/b\nper_device_train_batch_size: 2\nmax_length: 64\n"
    folder = project({"a.yaml": launch, "one.yaml": sft, "two.yaml": sft})

    def searched(name, training):
        beside = (training,)
        config = config_to_search("a.yaml", launch.encode(), Target(), beside=beside)
        made = plan_for_trials(config, (), "cpu", builtin=False)
        return Study(made.space, study(folder / "s" / name, [], made))

    def told(training):
        options = SearchOptions("a.yaml", "2h", studies=str(folder / "s"))
        return new_study_note(searched("a-2", training), options)

    searched("a-1", "one.yaml").note(tuned={}, unwritten="")
    files = "the files of the job are a.yaml, two.yaml, those of a-1 a.yaml, one.yaml"
    assert told("two.yaml") == f"a new study: {files}"
    (folder / "one.yaml").write_text(f"{sft}seed: 7\n")
    changed = "the text of one.yaml changed since a-1"
    assert told("one.yaml") == f"a new study: {changed}"
