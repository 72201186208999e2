"""``--output-file``: the findings in a file, the rest on stderr."""

import os
import stat

import pytest

from fp8tune.commands.lint import FORMATS
from tests.sample import TP

SUMMARY = """\
1 error in 1 of 1 file
can fix 1 finding with --unsafe-fixes, which change the run
"""
COMMAND = ("lint", "a.toml", "--select", "fp8-with-tensor-parallel")


@pytest.fixture
def root(project):
    return project({"a.toml": TP})


@pytest.mark.parametrize("output_format", FORMATS)
def test_the_file_holds_what_stdout_would(root, fp8tune, output_format):
    command = (*COMMAND, "--output-format", output_format)
    shown = fp8tune(*command, "-q")
    assert fp8tune(*command, "--output-file", "out.txt") == (1, "", SUMMARY)
    assert (root / "out.txt").read_text(encoding="utf-8") == shown.out
    assert sorted(os.listdir(root)) == ["a.toml", "out.txt"]


def test_statistics_go_to_stderr(root, fp8tune):
    said = fp8tune(*COMMAND, "--output-file", "out.txt", "--statistics")
    assert said.out == ""
    assert said.err.splitlines()[0] == "findings  files  level    rule"
    assert "in all" not in (root / "out.txt").read_text()


@pytest.mark.parametrize(
    ("name", "value"), [("FORCE_COLOR", "1"), ("GITHUB_ACTIONS", "true")]
)
def test_a_file_is_plain_full_text(root, fp8tune, monkeypatch, name, value):
    plain = fp8tune(*COMMAND, "-q").out
    monkeypatch.setenv(name, value)
    fp8tune(*COMMAND, "--output-file", "out.txt")
    assert (root / "out.txt").read_text() == plain


def test_a_file_is_replaced_with_its_permissions(root, fp8tune):
    path = root / "out.txt"
    path.write_text("old")
    path.chmod(0o640)
    before = path.stat()
    fp8tune(*COMMAND, "--output-file", "out.txt")
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert after.st_ino != before.st_ino
    assert path.read_text().startswith("error[")


def test_a_device_is_written_to(root, fp8tune):
    assert fp8tune(*COMMAND, "--output-file", os.devnull) == (1, "", SUMMARY)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("nosuch/out.txt", "cannot write nosuch/out.txt: No such file or directory"),
        (".", "cannot write .: Is a directory"),
        ("a\0b", "cannot write a\\u0000b: embedded null byte"),
        ("a.toml", "a.toml: findings go to no .toml file, to spare the configs"),
    ],
)
def test_a_place_that_cannot_be_written(root, fp8tune, place, reason):
    said = fp8tune(*COMMAND, "--output-file", place)
    assert said == (2, "", f"fp8tune: {reason}\n")
    assert os.listdir(root) == ["a.toml"]
    assert (root / "a.toml").read_text() == TP


def test_patches_go_to_the_file(root, fp8tune):
    command = (*COMMAND, "--diff", "--unsafe-fixes")
    shown = fp8tune(*command)
    assert "\n+tp = 1\n" in shown.out
    said = fp8tune(*command, "--output-file", "out.patch")
    assert said == (shown.code, "", shown.err)
    assert (root / "out.patch").read_text() == shown.out


def test_bad_options_leave_the_file_alone(root, fp8tune):
    (root / "out.txt").write_text("old")
    said = fp8tune("lint", "--select", "nosuch", "--output-file", "out.txt")
    assert (said.code, (root / "out.txt").read_text()) == (2, "old")
