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


def test_quiet(root, fp8tune):
    assert fp8tune(*COMMAND, "--output-file", "out.txt", "-q") == (1, "", "")


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


def test_names_that_are_no_text(root, fp8tune):
    odd = os.fsdecode(b"\xe9.toml")
    (root / odd).write_text(TP)
    said = fp8tune("lint", odd, "--output-file", "out.txt")
    assert said.code == 1
    assert b" --> \\udce9.toml:4:6\n" in (root / "out.txt").read_bytes()


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


def test_a_new_file_has_the_permissions_that_are_usual(root, fp8tune):
    mask = os.umask(0o027)
    try:
        fp8tune(*COMMAND, "--output-file", "out.txt")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((root / "out.txt").stat().st_mode) == 0o640


def test_a_link_stays_a_link(root, fp8tune):
    (root / "real").mkdir()
    (root / "out.txt").symlink_to("real/out.txt")
    fp8tune(*COMMAND, "--output-file", "out.txt")
    assert (root / "out.txt").is_symlink()
    assert (root / "real/out.txt").read_text().startswith("error[")


def test_a_device_is_written_to(root, fp8tune):
    assert fp8tune(*COMMAND, "--output-file", os.devnull) == (1, "", SUMMARY)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("nosuch/out.txt", "cannot write nosuch/out.txt: No such file or directory"),
        ("a.toml/out.txt", "cannot write a.toml/out.txt: Not a directory"),
        (".", "cannot write .: Is a directory"),
        ("x" * 300, f"cannot write {'x' * 300}: File name too long"),
        ("a\0b", "cannot write a\\u0000b: embedded null byte"),
        ("a.toml", "a.toml: findings go to no .toml file, to spare the configs"),
    ],
)
def test_a_place_that_cannot_be_written(root, fp8tune, place, reason):
    said = fp8tune(*COMMAND, "--output-file", place)
    assert said == (2, "", f"fp8tune: {reason}\n")
    assert os.listdir(root) == ["a.toml"]
    assert (root / "a.toml").read_text() == TP


def test_a_file_stays_as_it_was_if_the_new_one_cannot_be_completed(root, monkeypatch):
    from fp8tune import atomic

    (root / "out.txt").write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        atomic.write("out.txt", b"new")
    assert (root / "out.txt").read_text() == "old"
    assert sorted(os.listdir(root)) == ["a.toml", "out.txt"]


def test_patches_go_to_the_file(root, fp8tune):
    command = (*COMMAND, "--diff", "--unsafe-fixes")
    shown = fp8tune(*command)
    assert "\n+tp = 1\n" in shown.out
    said = fp8tune(*command, "--output-file", "out.patch")
    assert said == (shown.code, "", shown.err)
    assert (root / "out.patch").read_text() == shown.out


def test_what_cannot_be_read_is_said_beside_patches(root, fp8tune):
    said = fp8tune("lint", "gone.toml", "--diff")
    assert said == (2, "", "fp8tune: gone.toml: No such file or directory\n")


def test_bad_options_leave_the_file_alone(root, fp8tune):
    (root / "out.txt").write_text("old")
    said = fp8tune("lint", "--select", "nosuch", "--output-file", "out.txt")
    assert (said.code, (root / "out.txt").read_text()) == (2, "old")
