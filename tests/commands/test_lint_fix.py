"""``fp8tune lint --fix`` from outside: files, streams, exit codes, processes."""

import os
import shutil
import subprocess

import pytest

from tests.each import each

SAFE = "[model]\nnum_experts = -1  # none\n[train]\nbatchsize = 8\n"
SAFELY = "[model]\nnum_experts = 0  # none\n[train]\nbatch_size = 8\n"
UNSAFE = '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 4 # NVLink\n'
UNSAFELY = UNSAFE.replace("4", "1")
BOTH = "negative-expert-count, unknown-key"
FIXABLE = "can fix 1 finding with --unsafe-fixes, which change the run"


def summary(text):
    """The lines of a summary, but for those on what lacks a GPU or a world size."""
    return [line for line in text.splitlines() if "not checked" not in line]


def test_fix(fp8tune, project):
    folder = project({"a.toml": SAFE})
    said = fp8tune("lint", "a.toml", "--fix")
    assert (said.code, said.err) == (0, "")
    assert summary(said.out) == [
        "no findings in 1 file",
        f"fixed 2 findings in 1 file: {BOTH}",
    ]
    assert (folder / "a.toml").read_text() == SAFELY
    again = fp8tune("lint", "a.toml", "--fix")
    assert summary(again.out) == ["no findings in 1 file"]
    assert (folder / "a.toml").read_text() == SAFELY


def test_a_finding_says_how_it_is_mended(fp8tune, project):
    project({"a.toml": SAFE, "b.toml": UNSAFE})
    lines = fp8tune("lint", "a.toml", "b.toml").out.splitlines()
    fixes = [line.strip() for line in lines if " = fix: " in line]
    assert fixes[:2] == [
        "= fix: set `model.num_experts = 0`, which is what runs (--fix)",
        "= fix: rename it to `batch_size` (--fix)",
    ]
    assert fixes[2].startswith("= fix: set `distributed.tp = 1` (--unsafe-fixes; FSDP")
    assert lines[-2:] == [
        "can fix 2 findings with --fix",
        FIXABLE.replace("1", "1 more"),
    ]


def test_unsafe_ones_are_left_unless_asked(fp8tune, project):
    folder = project({"a.toml": UNSAFE})
    said = fp8tune("lint", "a.toml", "--fix")
    assert (said.code, said.out.splitlines()[-1]) == (1, FIXABLE)
    assert (folder / "a.toml").read_text() == UNSAFE
    said = fp8tune("lint", "a.toml", "--unsafe-fixes")
    assert (said.code, said.out.splitlines()[-1]) == (
        0,
        "fixed 1 finding in 1 file: fp8-with-tensor-parallel",
    )
    assert (folder / "a.toml").read_text() == UNSAFELY


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
        (("--ignore", "negative-expert-count"), SAFE.replace("batchs", "batch_s")),
        (("--select", "rejected"), SAFE.replace("batchs", "batch_s")),
        (("--ignore", "FP8"), SAFE),
    ],
)
def test_only_selected_rules_are_mended(fp8tune, project, options, after):
    folder = project({"a.toml": SAFE})
    fp8tune("lint", "a.toml", "--fix", *options)
    assert (folder / "a.toml").read_text() == after


def test_only_rules_that_the_project_selects_are_mended(fp8tune, project):
    settings = "[tool.fp8tune.per-file-ignores]\n'a.toml' = ['silent']\n"
    folder = project({"a.toml": SAFE, "b.toml": SAFE, "pyproject.toml": settings})
    fp8tune("lint", ".", "--fix")
    assert (folder / "a.toml").read_text() == SAFE.replace("batchs", "batch_s")
    assert (folder / "b.toml").read_text() == SAFELY


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


def test_diff_says_what_it_could_not_read(fp8tune, project):
    project({"a.toml": SAFE})
    said = fp8tune("lint", "nosuch.toml", "a.toml", "--diff")
    assert said.code == 2
    assert said.out.startswith("--- a.toml\n+++ a.toml\n@@ ")
    assert said.err.startswith("fp8tune: nosuch.toml: No such file or directory\n")


def test_stdin_comes_out_mended(fp8tune):
    said = fp8tune("lint", "-", "--fix", stdin=SAFE.replace("\n", "\r\n").encode())
    assert (said.code, said.out) == (0, SAFELY.replace("\n", "\r\n"))
    assert summary(said.err) == [
        "no findings in 1 file",
        f"fixed 2 findings in 1 file: {BOTH}",
    ]


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


def test_stdin_gives_a_patch(fp8tune):
    options = ("--diff", "--stdin-filename", "x.toml")
    said = fp8tune("lint", "-", *options, stdin=SAFE.encode())
    assert said.out.startswith("--- x.toml\n+++ x.toml\n")
    assert said.err == f"would fix 2 findings in 1 file: {BOTH}\n"


def test_json_after_a_fix_is_of_the_new_text(fp8tune, project):
    project({"a.toml": UNSAFE.replace("mixed", "Mixed")})
    said = fp8tune("lint", "a.toml", "--fix", "--output-format", "json")
    assert said.code == 1
    (left,) = said.json["diagnostics"]
    assert (left["rule"], left["fix"]["safety"]) == (
        "fp8-with-tensor-parallel",
        "unsafe",
    )
    assert left["fix"]["edits"] == [
        {"line": 4, "column": 6, "end_line": 4, "end_column": 7, "text": "1"}
    ]


def test_a_pack_mends_too(fp8tune, project):
    from tests.sample import NO_PIPELINE

    more = '[[fix]]\nsafety = "safe"\ntitle = "x"\nset = { pp = "1" }\n'
    files = {"ours/silent/no-pipeline.toml": NO_PIPELINE + more}
    folder = project({**files, "a.toml": "distributed = { pp = 2, tp = 1 }\n"})
    assert fp8tune("lint", "a.toml", "--rules", "ours", "--fix").code == 0
    assert (folder / "a.toml").read_text() == "distributed = { pp = 1, tp = 1 }\n"


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


def test_a_link_and_its_file_are_mended_once(fp8tune, project):
    folder = project({"a.toml": SAFE})
    (folder / "link.toml").symlink_to("a.toml")
    assert fp8tune("lint", ".", "--fix").code == 0
    assert (folder / "a.toml").read_text() == SAFELY
    assert (folder / "link.toml").is_symlink()


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


@pytest.mark.usefixtures("cores")
def test_many_files_give_their_patches_in_order(fp8tune, project):
    project({f"{number:03}.toml": SAFE for number in range(MANY)})
    said = fp8tune("lint", ".", "--diff")
    heads = [line for line in said.out.splitlines() if line.startswith("--- ")]
    assert heads == [f"--- {number:03}.toml" for number in range(MANY)]
    assert said.err == (
        f"would fix {2 * MANY} findings in {MANY} files: "
        f"negative-expert-count x {MANY}, unknown-key x {MANY}\n"
    )
