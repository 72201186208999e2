"""Files that git ignores are left out of folders, as git itself leaves them out."""

import os
import subprocess

import pytest

from fp8tune.config.discover import Found, discover
from tests.each import each

FILES = ["a.toml", "b.toml", "runs/a.toml", "runs/1/a.toml", "x/runs/c.yaml"]


def listed(*paths: str) -> list[str]:
    return [found.path for found in discover(paths or (".",))]


@pytest.fixture
def repository(project, monkeypatch):
    """Makes a git repository of the files that it is given."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)

    def make(files):
        root = project(files)
        subprocess.run(["git", "init", "--quiet"], check=True)
        return root

    return make


@each(
    "patterns",
    [
        "a.toml",
        "/a.toml",
        "runs",
        "runs/",
        "runs/*",
        "**/1/",
        "runs/**/a.toml",
        "[ab].toml",
        "[!a].toml",
        "# a.toml\n\n",
        "runs/\n!runs/1/a.toml",
        "/*\n!/x/",
        "!a.toml\na.toml",
        "\\a.toml",
        "[a.toml",
        "/",
    ],
)
def test_patterns_mean_what_they_mean_to_git(repository, patterns):
    repository({**dict.fromkeys(FILES, ""), ".gitignore": patterns})
    names = ["git", "ls-files", "--others", "--exclude-standard", "*.toml", "*.yaml"]
    git = subprocess.run(names, check=True, capture_output=True, text=True)
    assert sorted(listed()) == git.stdout.splitlines()


def test_nearer_files_win_and_speak_of_their_own_folder(repository):
    repository(
        {
            **dict.fromkeys(FILES, ""),
            ".gitignore": "a.toml\n",
            "runs/.gitignore": "!a.toml\n/1/\n",
        }
    )
    assert listed() == ["b.toml", "runs/a.toml", "x/runs/c.yaml"]
    assert listed("runs") == ["runs/a.toml"]


def test_exclude_of_the_repository(repository):
    root = repository(dict.fromkeys(FILES, ""))
    (root / ".git/info/exclude").write_text("runs/\n", encoding="utf-8")
    assert listed() == ["a.toml", "b.toml"]
    (root / ".gitignore").write_text("!/runs/\n", encoding="utf-8")
    assert listed() == ["a.toml", "b.toml", "runs/a.toml", "runs/1/a.toml"]


def test_what_is_named_is_checked(repository):
    repository({**dict.fromkeys(FILES, ""), ".gitignore": "runs/\na.toml\n"})
    assert list(discover(("a.toml",))) == [Found("a.toml", True)]
    (found,) = discover(("x/runs",))
    assert found == Found("x/runs/c.yaml", False)


def test_a_repository_inside_has_its_own_rules(repository):
    repository(
        {".gitignore": "*.toml", "sub/a.toml": "", "sub/.git": "gitdir: ../.git/sub"}
    )
    assert listed() == ["sub/a.toml"]
    assert listed("sub") == ["sub/a.toml"]
