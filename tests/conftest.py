"""Fixtures that most tests share: the rules, the linter, and the command line."""

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from fp8tune.config.settings import _settings_in, settings_for
from fp8tune.job import Job, Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Report
from fp8tune.lint.engine import check
from fp8tune.lint.rules import Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.program import main
from fp8tune.trainers.about import trainers
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import Trainer, trainer
from fp8tune.verify import patterns

REPOSITORY = Path(__file__).parent.parent

os.environ["OMP_NUM_THREADS"] = "1"
"""One thread of torch for each test, whatever the number of cores: tensors are small,
and the suite has a process for each core already."""

for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
    os.environ.pop(name, None)  # or every test would see the annotations of a CI job

# a busy machine is no failure
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden again"
    )


@pytest.fixture(autouse=True)
def _forget_own_trainers():
    """Forget the trainers that a test has described; a process has those of one run."""
    yield
    for name in [name for name, about in trainers().items() if about.own]:
        del trainers()[name]
        patterns.known().pop(name, None)
        trainer.cache_clear()
        forget_settings()


def forget_settings() -> None:
    """Read each pyproject.toml again; a process reads it once."""
    settings_for.cache_clear()
    _settings_in.cache_clear()


class Outcome(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def builtin() -> list[Rule]:
    return read_builtin()


@pytest.fixture(scope="session")
def rules(builtin) -> Rules:
    return Rules(builtin, {})


@pytest.fixture
def lint(rules) -> Callable[..., Report]:
    """Check one KempnerForge config with the built-in rules."""

    def run(text: str, gpu: str = "", world_size: int = 0) -> Report:
        target = Target(
            gpu, world_size, "--gpu" * bool(gpu), "--world-size" * bool(world_size)
        )
        return check("a.toml", text.encode(), rules, target, only="kempnerforge")

    return run


@pytest.fixture
def fired(lint) -> Callable[..., list[str]]:
    """The names of the rules that fire on a config."""
    return lambda text, **target: [d.rule for d in lint(text, **target).diagnostics]


@pytest.fixture(scope="session")
def kempnerforge() -> Trainer:
    return trainer("kempnerforge")


@pytest.fixture
def load(kempnerforge) -> Callable[[str], Loaded]:
    """Load a config text as KempnerForge would."""
    import tomllib

    return lambda text: kempnerforge.load(tomllib.loads(text))


@pytest.fixture
def job(kempnerforge, load) -> Callable[..., Job]:
    """The job of a config text."""
    return lambda text, **target: kempnerforge.job(load(text), Target(**target))


@pytest.fixture
def project(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Write files into an empty folder and work there."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def write(files: dict[str, str | bytes] | None = None) -> Path:
        for name, text in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        forget_settings()
        return tmp_path

    return write


@pytest.fixture
def fp8tune(project, capsys, monkeypatch) -> Callable[..., Outcome]:
    """Run the command line in the project folder."""

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        typed = io.BufferedReader(io.BytesIO(stdin))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(typed))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        return Outcome(end.value.code, *capsys.readouterr())

    return run
