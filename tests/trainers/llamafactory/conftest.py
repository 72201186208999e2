"""LLaMA-Factory configs as fp8tune checks them."""

import pytest

from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer
from tests.support.verdicts import lint


@pytest.fixture
def job():
    """The job of a text; ``transformers`` is the release that is installed."""

    def build(text, version="0.9.5", transformers=None):
        known = trainer(f"llamafactory=={version}")
        document = parse(text.encode(), "x.yaml")
        document.read_as(known.about.reads)
        loaded = known.load(document.values)
        if transformers:
            loaded.values["transformers_release"] = transformers
        return known.job(loaded, Target())

    return build


@pytest.fixture
def found():
    """The rules that fire on a text, with the keys that they are about."""

    def look(text, version="0.9.5", path="x.yaml"):
        report = lint(path, text, f"llamafactory=={version}")
        return {each.rule: each.key for each in report.diagnostics}

    return look
