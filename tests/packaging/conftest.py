"""What users do with the package: build, install, run it from elsewhere."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

GOOD = "[model]\ndim = 1024\nn_heads = 16\nn_kv_heads = 16\n\n[train]\nseed = 1\n"
BAD = GOOD.replace("dim = 1024", "dim = 1000") + "\n[optimizer]\nlr = 0\n"


class Ended(NamedTuple):
    """How a process ended, and what it printed."""

    code: int
    out: str


def execute(*command: str | Path, folder: Path, **env: str) -> Ended:
    """Run a command elsewhere, apart from this Python's own paths."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**kept, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout)


def must(*command: str | Path, folder: Path, **env: str) -> str:
    """The output of a command that has to succeed."""
    ended = execute(*command, folder=folder, **env)
    assert ended.code == 0, ended.out
    return ended.out


def pip(python: str | Path, *arguments: str | Path, folder: Path) -> str:
    """Run pip of an environment."""
    return must(python, "-m", "pip", "-q", *arguments, folder=folder)


def environment_with(folder: Path, *what: str | Path) -> Path:
    """A fresh environment where pip installs this; returns its programs' folder."""
    must(sys.executable, "-m", "venv", "venv", folder=folder)
    programs = folder / "venv" / "bin"
    pip(programs / "python", "install", *what, folder=folder)
    return programs


@pytest.fixture(scope="session")
def wheel(tmp_path_factory, repository) -> Path:
    """The wheel, built as pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    arguments = ("wheel", repository, "--no-deps", "--wheel-dir", folder)
    pip(sys.executable, *arguments, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def configs(tmp_path) -> Path:
    """A folder with one good and one bad train config."""
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "good.toml").write_text(GOOD)
    (folder / "bad.toml").write_text(BAD)
    return folder
