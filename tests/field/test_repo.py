"""What users met around a repository: its files, small commands, a full disk."""

import errno
import os
import subprocess
import sys

import pytest

from tests.each import each
from tests.sample import ERROR, GOOD, SMALL_MODEL

AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nfp8: true\n"
DEEPSPEED = """\
{"zero_optimization": {"stage": 9}, "train_batch_size": 8, "bf16": {"enabled": true}}
"""


def test_lint_of_this_repository_is_clean(fp8tune, repository, monkeypatch):
    monkeypatch.chdir(repository)
    done = fp8tune("lint")
    assert (done.code, done.out.splitlines()[0]) == (0, "no findings in 6 files")


def test_ignored_files_are_checked_only_if_they_are_named(fp8tune, project):
    files = {"a.toml": GOOD, "runs/1/a.toml": ERROR, ".gitignore": "runs/*\n"}
    (project({**files, "runs/2/a.toml": ERROR}) / ".git").mkdir()
    assert fp8tune("lint").code == 0
    assert fp8tune("lint", "runs").code == 0
    assert fp8tune("lint", "runs/1").code == 1
    assert fp8tune("lint", "runs/1/a.toml").code == 1


def test_a_folder_of_ignored_files_says_so(fp8tune, project):
    (project({"a.toml": ERROR, ".gitignore": "*.toml"}) / ".git").mkdir()
    done = fp8tune("lint")
    assert (done.code, ".gitignore" in done.out) == (0, True)


@each(
    ("name", "text"),
    [("a.toml", ERROR), ("a.yaml", AXOLOTL), ("a.json", DEEPSPEED)],
)
def test_a_link_to_a_file_adds_no_findings(fp8tune, project, name, text):
    folder = name.rpartition(".")[2]
    file = project({f"{folder}/{name}": text}) / folder / name
    command = ("lint", "--output-format", "json", folder)
    once = fp8tune(*command).json
    assert once["files"] == 1
    (file.parent / f"z{name}").symlink_to(name)
    assert fp8tune(*command).json == once
    assert fp8tune(*command, f"{folder}/{name}", f"{folder}/z{name}").json == once


@each(
    ("arguments", "said"),
    [
        (("lint", "trian.toml"), "; did you mean `train.toml`?\n"),
        (("lint", "configs/sft.yml"), "; did you mean `configs/sft.yaml`?\n"),
        (("estimate", "trian.toml"), "; did you mean `train.toml`?\n"),
        (("lint", "runs/trian.toml"), "No such file or directory\n"),
        (("lint", "trainn.toml"), "; did you mean `train.toml`?\n"),
        (("lint", "other.toml"), "No such file or directory\n"),
        (("studies", "list"), "`fp8tune report STUDY` shows one\n"),
        (("studies", "train.toml"), "`fp8tune report STUDY` shows one\n"),
        (("rules", "list"), "`fp8tune explain NAME` shows one\n"),
        (("rules", "fp8-without-compile"), "`fp8tune explain NAME` shows one\n"),
        (("rules", "--trainer", "torchtitn"), "; did you mean torchtitan?\n"),
    ],
)
def test_what_to_type_instead(fp8tune, project, arguments, said):
    project({"train.toml": GOOD, "train.txt": "", "configs/sft.yaml": AXOLOTL})
    done = fp8tune(*arguments)
    assert done.code == 2
    assert done.err.endswith(said)


@each("trainer", ["kempnerforge", "torch-titan", "torchtitan==0.2.2", "axolotl"])
def test_rules_of_a_trainer(fp8tune, builtin, trainer):
    name = trainer.replace("-", "").partition("==")[0]
    listed = fp8tune("rules", "--trainer", trainer, "--output-format", "json").json
    names = {rule["name"] for rule in listed["rules"]}
    allowed = {r.name for r in builtin if not r.trainers or name in r.trainers}
    general = {r.name for r in builtin if not (r.trainers or r.versions)}
    assert general < names <= allowed


FULL = "import resource, runpy, sys\n" + (
    "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    "runpy.run_module('fp8tune', run_name='__main__', alter_sys=True)\n"
)
"""A program that writes no byte into a file, as on a full disk."""


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "a.toml", "--device", "cpu", "--budget", "1m"),
        ("phases", "a.toml", "--bf16-warmup", "5%"),
        ("lint", "a.toml", "--baseline", "b.json", "--update-baseline"),
        (
            "init",
            "--model",
            "llama3-8b",
            "--gpu",
            "h100",
            "--world-size=8",
            "--output",
            "t.toml",
        ),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_full_disk_is_named(project, arguments):
    config = "[train]\nmixed_precision = 'fp8'\nmax_steps = 100\nseq_len = 32\n"
    project({"a.toml": SMALL_MODEL + config})
    command = [sys.executable, "-c", FULL, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert os.strerror(errno.EFBIG) in done.stderr
    assert "None" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["rules", "lint", "doctor"])
def test_a_full_disk_behind_stdout_is_named(project, command):
    project({"a.toml": ERROR})
    arguments = [sys.executable, "-m", "fp8tune", command]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    reason = "fp8tune: cannot write: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, reason)
