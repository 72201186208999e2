"""``fp8tune lint --fix`` from outside: files, streams, exit codes, processes."""

import os
import shutil
import subprocess

import pytest

from tests.each import each

SAFE = "[model]\nnum_experts = -1  # none\n[train]\nbatchsize = 8\n"
SAFELY = "[model]\nnum_experts = 0  # none\n[train]\nbatch_size = 8\n"
UNSAFE = '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 4 # NVLink\n'


def summary(text):
    """The lines of a summary, but for those on what lacks a GPU or a world size."""
    return [line for line in text.splitlines() if "not checked" not in line]


def test_a_file_without_fixes_is_not_touched(fp8tune, project):
    folder = project({"a.toml": "[train]\nseq_len = 1024\n"})
    before = (folder / "a.toml").stat()
    assert fp8tune("lint", "a.toml", "--fix").code == 0
    after = (folder / "a.toml").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (("--select", "negative-expert-count"), SAFE.replace("-1", "0")),
        (("--ignore", "FP8"), SAFE),
    ],
)
def test_only_selected_rules_are_mended(fp8tune, project, options, after):
    folder = project({"a.toml": SAFE})
    fp8tune("lint", "a.toml", "--fix", *options)
    assert (folder / "a.toml").read_text() == after


def test_what_a_comment_silences_is_not_mended(fp8tune, project):
    text = SAFE.replace("# none", "# fp8tune: ignore[negative-expert-count] -- odd")
    folder = project({"a.toml": text})
    assert fp8tune("lint", "a.toml", "--fix").code == 0
    assert (folder / "a.toml").read_text() == text.replace("batchs", "batch_s")


@pytest.mark.skipif(not shutil.which("patch"), reason="no patch here")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_diff_shows_what_fix_would_do(fp8tune, project, newline):
    files = {"a.toml": SAFE, "sub/b c.toml": SAFE, "good.toml": SAFELY}
    files = {name: text.replace("\n", newline) for name, text in files.items()}
    folder = project(files)
    said = fp8tune("lint", ".", "--diff")
    assert (said.code, said.err) == (
        1,
        "would fix 4 findings in 2 files: negative-expert-count x 2, unknown-key x 2\n",
    )
    for name, text in files.items():
        assert (folder / name).read_bytes() == text.encode()
    patch = ["patch", "-p0", "--quiet", "--binary"]
    subprocess.run(patch, input=said.out.encode(), check=True)
    patched = {name: (folder / name).read_bytes() for name in files}
    project(files)
    fp8tune("lint", ".", "--fix")
    assert patched == {name: (folder / name).read_bytes() for name in files}


@pytest.mark.parametrize(
    ("text", "options", "code", "empty"),
    [
        (SAFE, (), 1, False),
        (UNSAFE, (), 1, True),
        (UNSAFE, ("--unsafe-fixes",), 1, False),
        (UNSAFE, ("--unsafe-fixes", "--fail-on", "never"), 0, False),
        (SAFELY, (), 0, True),
    ],
)
def test_diff_ends_as_a_check_does(fp8tune, project, text, options, code, empty):
    folder = project({"a.toml": text})
    said = fp8tune("lint", "a.toml", "--diff", "--fix", *options)
    assert (said.code, not said.out) == (code, empty)
    assert (folder / "a.toml").read_text() == text


@each(
    "stdin",
    [
        "",
        UNSAFE,
        "[train\nbroken",
        "[project]\nname = 'x'\n",
        SAFELY,
        "\ufeff[train] # no newline",
    ],
)
@each("style", ["full", "concise", "json", "sarif", "github"])
def test_stdin_comes_out_whatever_it_is(fp8tune, stdin, style):
    options = ("--fix", "--output-format", style)
    said = fp8tune("lint", "-", *options, stdin=stdin.encode())
    assert said.out == stdin.removeprefix("\ufeff")


def test_stdin_comes_out_even_if_it_is_excluded(fp8tune, project):
    project({"pyproject.toml": "[tool.fp8tune]\nexclude = ['old']\n"})
    options = ("--fix", "--force-exclude", "--stdin-filename", "old/a.toml")
    said = fp8tune("lint", "-", *options, stdin=SAFE.encode())
    assert (said.code, said.out) == (0, SAFE)
    assert "skipped old/a.toml: excluded" in said.err


def test_what_cannot_be_written_is_said_in_one_line(fp8tune, project, monkeypatch):
    folder = project({"a.toml": SAFE, "b.toml": SAFE})

    def full(temporary, place):
        if place.endswith("a.toml"):
            raise OSError(28, "No space left on device")
        os.rename(temporary, place)

    monkeypatch.setattr(os, "replace", full)
    said = fp8tune("lint", "a.toml", "b.toml", "--fix")
    assert said.code == 2
    assert said.err == "fp8tune: a.toml: not written: No space left on device\n"
    assert (folder / "a.toml").read_text() == SAFE
    assert (folder / "b.toml").read_text() == SAFELY
    assert sorted(path.name for path in folder.iterdir()) == ["a.toml", "b.toml"]


def test_an_interrupt_leaves_whole_files(fp8tune, project, monkeypatch):
    folder = project({"a.toml": SAFE})

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    said = fp8tune("lint", "a.toml", "--fix")
    assert (said.code, said.err.strip()) == (130, "fp8tune: interrupted")
    assert [path.name for path in folder.iterdir()] == ["a.toml"]
    assert (folder / "a.toml").read_text() == SAFE


MANY = 30


@pytest.fixture
def cores(monkeypatch):
    """More than one, so that many files are shared out."""
    monkeypatch.setattr("fp8tune.lint.run.cores", lambda: 2)


@pytest.mark.usefixtures("cores")
def test_many_files_are_fixed_by_several_processes(fp8tune, project):
    folder = project({f"{number:03}.toml": SAFE for number in range(MANY)})
    said = fp8tune("lint", ".", "--fix", "-q")
    assert said == (0, "", "")
    assert {path.read_text() for path in folder.iterdir()} == {SAFELY}
    said = fp8tune("lint", ".", "--fix")
    assert summary(said.out) == [f"no findings in {MANY} files"]
