"""A rule of a user, with fixes, as the linter applies it; a config with settings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fp8tune.job import Target
from fp8tune.lint.diagnostic import Report
from fp8tune.lint.engine import check
from fp8tune.lint.packs import read_rule
from fp8tune.lint.rules import Rule
from fp8tune.lint.ruleset import Rules
from tests.lint.results import FP8
from tests.sample import NO_PIPELINE

FIX = '[[fix]]\nsafety = "{}"\ntitle = "repair"\nchanges = "much"\n{}\n'


def fix(body: str, safety: str = "safe") -> str:
    """The text of one ``[[fix]]``."""
    return FIX.format(safety, body)


@pytest.fixture
def a_rule(tmp_path) -> Callable[..., Rule]:
    """A rule that a user wrote: fires for ``when``, or on a fault."""

    def write(
        *fixes: str,
        name: str = "a-rule",
        when: str = "pp > 1",
        fault: str = "",
        severity: str = "warning",
        category: str = "silent",
    ) -> Rule:
        text = (
            NO_PIPELINE.replace("no-pipeline", name)
            .replace("ME301", name)
            .replace("[[at]]", 'trainer = "kempnerforge"\n[[at]]')
            .replace('severity = "warning"', f'severity = "{severity}"')
        )
        if fault:
            text = text.replace('when = "pp > 1"', f'fault = "{fault}"')
            text = text.replace('key = "pp"', 'key = "fault"')
        else:
            text = text.replace('"pp > 1"', repr(when))
        path = tmp_path / f"{name}.toml"
        path.write_text(text + "".join(fixes), encoding="utf-8")
        return read_rule(str(path), category)

    return write


@pytest.fixture
def looks() -> Callable[..., Callable[[bytes], Report]]:
    """A function from bytes to the report of some rules."""

    def make(*rules: Rule, world_size: int = 0) -> Callable[[bytes], Report]:
        chosen, target = Rules(list(rules), {}), Target(world_size=world_size)
        return lambda data: check("a.toml", data, chosen, target, only="kempnerforge")

    return make


@pytest.fixture
def configured(project) -> Callable[..., Path]:
    """A config beside a ``[tool.fp8tune]`` table."""

    def write(settings: str, config: str = FP8, **more: str) -> Path:
        files = {"pyproject.toml": f"[tool.fp8tune]\n{settings}\n", "a.toml": config}
        return project({**files, **more})

    return write
