"""Launch files and training arguments as fp8tune loads them."""

import pytest

from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.trainer import trainer


@pytest.fixture
def load():
    """A job's files as a release holds them; training arguments are a section."""

    def read(text, version="1.15.0", command=""):
        values = parse(text.encode(), "x.yaml").values
        return trainer(f"accelerate=={version}").load(values, (*command.split(),))

    return read


@pytest.fixture
def job(load):
    """The job of a text on H100."""

    def build(text, version="1.15.0"):
        known = trainer(f"accelerate=={version}")
        return known.job(load(text, version), Target("h100"))

    return build


@pytest.fixture
def found():
    """The rules that fire on a text, with what the keys say is wrong."""
    rules = Rules(read_builtin(), {})

    def look(text, version="1.15.0"):
        name = f"accelerate=={version}"
        report = check("x.yaml", text.encode(), rules, Target(), only=name)
        return {each.rule: each.key for each in report.diagnostics}

    return look
