"""Launch files and training arguments as fp8tune loads them."""

import pytest

from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer
from tests.support.verdicts import lint


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

    def look(text, version="1.15.0"):
        report = lint("x.yaml", text, f"accelerate=={version}")
        return {each.rule: each.key for each in report.diagnostics}

    return look
