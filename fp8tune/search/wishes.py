"""What the command line asks of a search: which config, for what, and where to."""

from __future__ import annotations

from typing import NamedTuple

from fp8tune.job import Target
from fp8tune.lint.directive import asked
from fp8tune.search.aim import SPEED
from fp8tune.search.destination import tuned
from fp8tune.search.plan import CannotPlan, Config, read_config
from fp8tune.search.real import this_gpu
from fp8tune.search.recorded import MAX_BYTES


class Wishes(NamedTuple):
    """What the command line asks for."""

    config: str
    budget: str
    gpu: str
    world_size: int
    trainer: str
    runner: str
    device: str
    records: str
    allow: tuple[str, ...]
    output: str
    in_place: bool
    diff: bool
    studies: str
    as_json: bool
    objective: str = SPEED
    start_from: str = ""


def config_of(wishes: Wishes) -> Config:
    """The config, for this GPU where trials run on it; raises ``CannotPlan``.

    And ``Unreadable``, ``InvalidToml``, ``ValueError``.
    """
    try:
        with open(wishes.config, "rb") as file:
            data = file.read(MAX_BYTES)
    except OSError as error:
        raise CannotPlan(f"{wishes.config}: {error.strerror}") from None
    replayed = wishes.runner == "replay"
    elsewhere = replayed or wishes.device == "cpu"
    gpu = asked(wishes.gpu, None).gpu
    target = Target(
        gpu if elsewhere else this_gpu(gpu),
        wishes.world_size,
        "" if replayed and not gpu else "--gpu",
        "--world-size" if wishes.world_size else "",
    )
    alone = 0 if replayed else 1
    return read_config(wishes.config, data, target, wishes.trainer, alone)


def place_of(wishes: Wishes) -> str:
    """The path to write, if nothing speaks against it."""
    if wishes.in_place:
        return wishes.config
    return wishes.output or tuned(wishes.config)
