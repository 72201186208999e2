"""Where a command that runs a trainer has its config and its overrides."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """A command that runs the trainer, by its words.

    The first ``launcher`` words start it (srun, torchrun), word number ``config`` names
    the config behind ``prefix`` characters, and those of ``overrides`` change it. A
    ``config`` that is no word's number: the command names none.
    """

    launcher: int
    config: int
    overrides: tuple[int, ...]
    prefix: int = 0
