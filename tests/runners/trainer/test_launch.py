"""A trainer is found before a search begins, or what is missing is said."""

import subprocess
import sys

import pytest

from fp8tune.config.own_trainer import add_trainer
from fp8tune.runners.trainer import launch
from fp8tune.runners.trainer.launch import CannotLaunch, find_launch
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer
from tests.conftest import REPOSITORY
from tests.each import each
from tests.runners.trainer.conftest import EXAMPLE

RUN = '[run]\ncommand = ["{python}", "{config}"]\ncpu = true\n'


def about(name):
    return trainers()[name]


@pytest.fixture
def ours(tmp_path):
    """Add a trainer with another [run]."""
    text = (EXAMPLE / "ours.toml").read_text(encoding="utf-8")
    head = text[: text.index("# How a search")]
    end = text[text.index("[[run.line]]") :]

    def add(run=RUN, lines=end):
        for name in [name for name in trainers() if name == "ours"]:
            del trainers()[name]
            trainer.cache_clear()
        path = tmp_path / "ours.toml"
        path.write_text(f"{head}{run}{lines}", encoding="utf-8")
        return trainer(add_trainer(str(path))).about

    return add


def refused(*words, **more):
    with pytest.raises(CannotLaunch) as error:
        find_launch(*words, **more)
    return str(error.value)


@each(
    ("name", "folder", "ranks", "device", "own", "said"),
    [
        ("kempnerforge", "", 1, "cuda", False, "--trainer-dir PATH names the checkout"),
        ("kempnerforge", "no", 1, "cuda", False, "--trainer-dir no: no such folder"),
        (
            *("kempnerforge", ".", 1, "cuda", False),
            "--trainer-dir .: no scripts/train.py, kempnerforge/__init__.py there: is "
            "it a checkout of KempnerForge?",
        ),
        (
            *("torchtitan", "", 16, "cuda", False),
            "the config is for 16 GPUs, and here are 2: its own trainer can only run "
            "on all of them; --runner builtin measures one of the 16 ranks",
        ),
        ("megatron_bridge", ".", 1, "cuda", False, "Megatron-Bridge: a file overrides"),
        ("kempnerforge", ".", 1, "cuda", True, "of your own, --trainer ours.toml; for"),
        ("torchtitan", "", 1, "cuda", False, " finds no torchtitan; "),
    ],
)
def test_what_is_missing_is_named(monkeypatch, name, folder, ranks, device, own, said):
    monkeypatch.chdir(REPOSITORY / "docs")
    assert said in refused(about(name), folder, ranks, device, own=own, gpus=2)


def test_what_a_file_of_the_users_own_lacks_is_named(ours):
    def why(*given, ranks=1, own=True):
        return refused(ours(*given), "", ranks, "cpu", own=own)

    assert "is described by" in why(own=False)
    assert "no [run]: it says how to launch the trainer" in why("", "")
    assert "no `ranks`: the command for several ranks" in why(ranks=2)
    step = '[[run.line]]\nname = "a"\nkind = "step"\ntriggers = ["a"]\npattern = "{}"\n'
    assert "no [[run.line]] of kind `step` with a group (?P<step>" in why(RUN, "")
    assert "no [[run.line]] of kind `step`" in why(RUN, step.format("a"))
    assert "[[run.line]]: missing ), unterminated" in why(RUN, step.format("(a"))
    no_program = RUN.replace("{python}", "no-such-program")
    assert "[run]: no program no-such-program" in why(no_program)
    no_package = f'{RUN}package = "no_such_package"\n'
    assert "finds no no_such_package" in why(no_package)


def test_the_identity_follows_the_checkout(ours, tmp_path):
    known = ours(RUN.replace("{config}", '{dir}/train.py", "{config}'))
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "train.py").write_text("steps = 1\n")

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(folder), *who, *words]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def identity():
        found = find_launch(known, str(folder), 1, "cpu", own=True)
        return found.identity["trainer_versions"]["ours"]

    seen = [identity()]
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    head = git("rev-parse", "HEAD").decode().strip()
    seen.append(identity())
    (folder / "train.py").write_text("steps = 2\n")
    seen.append(identity())
    (folder / "notes.txt").write_text("not the trainer\n")
    assert identity() == seen[-1]
    assert seen[1] == head
    assert seen[2].startswith(f"{head}+")
    assert len(set(seen)) == 3


def test_the_trainers_own_python_runs_it(ours, tmp_path):
    folder = tmp_path / "checkout"
    (folder / ".venv/bin").mkdir(parents=True)
    python = folder / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    known = ours()
    found = find_launch(known, str(folder), 1, "cpu", own=True)
    assert found.python == str(python)
    assert find_launch(known, "", 1, "cpu", own=True).python == sys.executable


@each(
    ("script", "said"),
    [
        ("echo 'no torch\nin here' >&2; exit 3", "it ends with code 3: in here"),
        ("exit 1", "it ends with code 1"),
        ("echo hello", "it is no Python"),
        ("exec sleep 60", "no answer within 1 s"),
    ],
)
def test_a_program_that_is_no_python_is_told_in_a_line(
    monkeypatch, tmp_path, script, said
):
    monkeypatch.setattr(launch, "ASK_S", 1.0)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with pytest.raises(CannotLaunch) as error:
        launch.releases_in(str(python), "", ["torch"])
    typed = "--python PATH names the Python that has the trainer"
    assert str(error.value) == f"{python}: {said}; {typed}"


def test_what_the_trainer_runs_on_is_known(ours):
    found = find_launch(ours(), "", 1, "cpu", own=True)
    assert {"torch", "torchao"} <= set(found.versions)
    command = found.command({"config": "/a b/config.toml"})
    assert command[-2:] == [found.python, "/a b/config.toml"]
    assert launch.DIES_WITH_PARENT[0] == sys.executable


def test_the_trainer_does_not_get_the_storage(monkeypatch):
    monkeypatch.setenv("FP8TUNE_STORAGE", "postgresql://me:secret@db/x")
    assert "FP8TUNE_STORAGE" not in launch.variables("", 1)
