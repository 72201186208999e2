"""Axolotl configs as fp8tune checks them."""

import pytest

from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer


@pytest.fixture
def job():
    """The job of a text."""

    def build(text, version="0.19.0", target=Target()):  # noqa: B008
        known = trainer(f"axolotl=={version}")
        document = parse(text.encode(), "x.yaml")
        document.read_as(known.about.reads)
        loaded = known.load(document.values)
        return known.job(loaded, target)

    return build
