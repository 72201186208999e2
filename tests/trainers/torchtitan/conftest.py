"""Configs of torchtitan's releases as fp8tune loads them."""

import tomllib

import pytest

from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer


@pytest.fixture
def load():
    """A config as a release holds it."""

    def read(text, version="0.2.2"):
        return trainer(f"torchtitan=={version}").load(tomllib.loads(text))

    return read


@pytest.fixture
def job(load):
    """The job of a config on 8 GPUs, or on others."""

    def build(text, version="0.2.2", gpu="h100", size=8):
        known = trainer(f"torchtitan=={version}")
        return known.job(load(text, version), Target(gpu, size))

    return build
