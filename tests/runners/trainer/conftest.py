"""The in-house trainer of the guide, as tests launch it."""

import pytest

from fp8tune.config.own_trainer import add_trainer
from fp8tune.config.reader import config_of
from fp8tune.job import Target
from fp8tune.runners.sampling import Sampling
from fp8tune.runners.trainer.config import UserConfig
from fp8tune.runners.trainer.launch import find_launch
from fp8tune.runners.trainer.runner import trainer_runner
from fp8tune.trainers.trainer import trainer
from tests.conftest import REPOSITORY

EXAMPLE = REPOSITORY / "docs/own_trainer/run"
FEW = Sampling(min_steps=3, max_steps=6, warm_steps=1)
"""Steps that are enough for a test."""


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def runner_of(folder, scratch, ranks=1, launched=lambda launch: launch):
    """The runner of a copy of the example; ``launched`` changes how it is started."""
    known = trainer(add_trainer(str(folder / "ours.toml")))
    launch = find_launch(known.about, str(folder), ranks, "cpu", own=True)
    data = (folder / "train.toml").read_bytes()
    target = Target("", ranks, "", "--world-size")
    config = config_of("train.toml", data, target, only=known)
    found = trainer_runner(launched(launch), UserConfig(config), device="cpu")
    scratch.mkdir(exist_ok=True)
    return found.ready(FEW, str(scratch), None)
