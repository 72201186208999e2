import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from identify.identify import tags_from_filename

from tests.each import each

from .conftest import execute, must

NEEDED = (
    ".pre-commit-hooks.yaml",
    "LICENSE",
    "README.md",
    "fp8tune",
    "pyproject.toml",
    "rules",
)
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "test"), ("EMAIL", "test@example.org"))
}
PRE_COMMIT = Path(sys.executable).parent / "pre-commit"


@pytest.fixture(scope="session")
def hooks(repository):
    return yaml.safe_load((repository / ".pre-commit-hooks.yaml").read_text())


def git(folder, *arguments):
    return must("git", *arguments, folder=folder, **AUTHOR)


def commit(folder):
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "test")


@pytest.fixture(scope="session")
def published(tmp_path_factory, repository):
    """A repository that holds the checkout as it is, committed or not."""
    folder = tmp_path_factory.mktemp("published")
    for name in NEEDED:
        if (repository / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(repository / name, folder / name, ignore=ignored)
        else:
            shutil.copy(repository / name, folder / name)
    commit(folder)
    return folder


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Where pre-commit keeps the hook's environment, so that it is built once."""
    return str(tmp_path_factory.mktemp("home"))


@pytest.fixture
def try_repo(configs, published, home):
    """Run the hook on files of a scratch repository."""
    (configs / "Cargo.toml").write_text("[package]\nname = 'other'\n")
    (configs / "pyproject.toml").write_text("[tool.fp8tune]\nexclude = ['old']\n")
    (configs / "old").mkdir()
    shutil.copy(configs / "bad.toml", configs / "old")
    commit(configs)

    def run(*files):
        command = (PRE_COMMIT, "try-repo", published, "fp8tune", "--color", "never")
        env = AUTHOR | {"PRE_COMMIT_HOME": home}
        return execute(*command, "--files", *files, folder=configs, **env)

    return run


def said(out):
    """What the hook said, behind the config that try-repo shows."""
    lines = out.rpartition("=" * 79)[2].strip().splitlines()
    return [line for line in lines if not line.startswith("[INFO]")]


def test_manifest(hooks, repository, home):
    command = (PRE_COMMIT, "validate-manifest", ".pre-commit-hooks.yaml")
    must(*command, folder=repository, PRE_COMMIT_HOME=home)
    (hook,) = hooks
    assert hook["id"] == "fp8tune"
    assert hook["entry"] == "fp8tune lint --force-exclude"
    assert hook["language"] == "python"
    assert hook["require_serial"] is True
    assert hook["minimum_pre_commit_version"] == "2.9.2"


@each(
    ("path", "matches"),
    [
        ("train.toml", True),
        ("configs/8b_fp8.toml", True),
        ("pyproject.toml", True),
        ("Cargo.toml", True),
        ("poetry.lock", False),
        ("uv.lock", False),
        ("Cargo.lock", False),
        ("Pipfile", False),
        ("train.toml.j2", False),
        ("train.yaml", True),
        ("train.yml", True),
        ("ds_config.json", True),
        ("train.jsonl", False),
        ("train.py", False),
    ],
)
def test_files(hooks, path, matches):
    (hook,) = hooks
    typed = set(hook["types_or"]) & tags_from_filename(path)
    assert bool(typed and re.search(hook["files"], path)) is matches


def test_passes_and_is_quiet(try_repo):
    """Files of other programs and excluded ones pass with the good one."""
    ended = try_repo("good.toml", "pyproject.toml", "Cargo.toml", "old/bad.toml")
    assert ended.code == 0, ended.out
    (line,) = said(ended.out)
    assert line.startswith("fp8tune lint...")
    assert line.endswith("...Passed")


def test_fails_and_shows_the_finding(try_repo):
    ended = try_repo("good.toml", "bad.toml")
    assert ended.code == 1, ended.out
    first, *lines = said(ended.out)
    assert first.startswith("fp8tune lint...")
    assert first.endswith("...Failed")
    assert "- exit code: 1" in lines
    shown = "\n".join(lines)
    assert "heads-do-not-divide-hidden-size" in shown
    assert "bad.toml:2:7" in shown
    assert "2 errors in 1 of 2 files" in shown
    assert "good.toml" not in shown


def test_with_fix_it_fixes_and_passes_the_second_time(
    configs, published, home, repository
):
    """As the README configures it; each finding is shown once."""
    readme = (repository / "README.md").read_text(encoding="utf-8")
    text = re.search(r"```yaml\n(repos:\n.*?)```", readme, re.DOTALL)[1]
    text = text.replace("ADDRESS-OF-FP8TUNE", str(published))
    commit_of_it = git(published, "rev-parse", "HEAD").strip()
    text = re.sub(r"rev: \S+", f"rev: {commit_of_it}", text)
    (configs / ".pre-commit-config.yaml").write_text(text)
    (configs / "bad.toml").write_text(
        "[train]\r\nbatchsize = 8 # per GPU\r\nseq_len = 4096\r\n", newline=""
    )
    commit(configs)

    def run():
        command = (PRE_COMMIT, "run", "--all-files", "--color", "never")
        env = AUTHOR | {"PRE_COMMIT_HOME": home}
        return execute(*command, folder=configs, **env)

    ended = run()
    assert ended.code == 1, ended.out
    assert "- files were modified by this hook" in ended.out
    assert ended.out.count("fixed 1 finding in 1 file") == 1
    assert ended.out.count("error[seq-len-above-max-seq-len]") == 1
    fixed = b"[train]\r\nbatch_size = 8 # per GPU\r\nseq_len = 4096\r\n"
    assert (configs / "bad.toml").read_bytes() == fixed
    (configs / "bad.toml").write_bytes(fixed.replace(b"4096", b"2048"))
    ended = run()
    assert ended.code == 0, ended.out
