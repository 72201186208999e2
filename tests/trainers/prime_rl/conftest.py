"""Configs of prime-rl as fp8tune loads them."""

import tomllib

import pytest

from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer


@pytest.fixture
def load():
    """A file as a command holds it."""

    def read(text, kind="sft"):
        return trainer(f"prime_rl==0.8.1.dev67.{kind}").load(tomllib.loads(text))

    return read


@pytest.fixture
def job(load):
    """The job of a file on 8 GPUs, or on others."""

    def build(text, kind="sft", gpu="h100", size=8):
        known = trainer(f"prime_rl==0.8.1.dev67.{kind}")
        return known.job(load(text, kind), Target(gpu, size))

    return build
