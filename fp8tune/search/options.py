"""The options of a search, and the config to use if none is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from fp8tune.config.discover import CannotRead, discover, matches, read
from fp8tune.config.reader import NotAConfig, config_at
from fp8tune.config.settings import settings_for
from fp8tune.formats import ENDINGS
from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.budget import parse_duration
from fp8tune.trainers.about import trainers

TUNED = ".tuned"
"""How the names of tuned files end, before the ending of their format."""
NO_WORKERS = -1
"""The number of workers of a search that runs its trials itself."""
SHOWN = 20
"""Configs that a message names."""


class SearchOptions(NamedTuple):
    """The options of ``fp8tune search``, by the names of the command line."""

    config: str
    budget: str
    gpu: str = ""
    world_size: int = 0
    trainer: str = ""
    runner: str = "builtin"
    trainer_dir: str = ""
    python: str = ""
    device: str = "cuda"
    records: str = ""
    allow: tuple[str, ...] = ()
    allow_versions: bool = False
    output: str = ""
    in_place: bool = False
    diff: bool = False
    dry_run: bool = False
    studies: str = ".fp8tune"
    as_json: bool = False
    objective: str = "tokens-per-second"
    sampler: str = "auto"
    storage: str = ""
    export: str = ""
    workers: int = NO_WORKERS
    gpus: str = ""
    ranks: int = 1
    slurm: str = ""
    study: str = ""
    heartbeat: str = "10s"
    beside: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    @property
    def budget_s(self) -> float:
        """The budget in seconds; raises ``CannotSearch``."""
        return parse_duration(self.budget)

    @property
    def beat_s(self) -> float:
        """The time between heartbeats [s]; raises ``CannotSearch``."""
        return parse_duration(self.heartbeat)

    @property
    def has_workers(self) -> bool:
        """Whether other processes run the trials."""
        return self.workers != NO_WORKERS or bool(self.gpus or self.slurm)

    @property
    def kept(self) -> dict[str, Any]:
        """The options to type when the same search is repeated, by name."""
        once = {"config", "diff", "dry_run", "as_json", "export", "study"}
        once.add("overrides")  # they come after all options
        about = trainers().get(self.trainer)
        named = about.own.path if about and about.own else self.trainer
        fields = self._replace(trainer=named)._asdict().items()
        typed = {k: v for k, v in fields if k not in once}
        kept = {k: v for k, v in typed.items() if v != self._field_defaults.get(k)}
        return {"with" if name == "beside" else name: kept[name] for name in kept}

    @property
    def tuned_path(self) -> str:
        """The path of the tuned config."""
        return self.config if self.in_place else self.output or tuned(self.config)


def tuned(path: str) -> str:
    """Return the default path of the tuned version of a file."""
    stem, ending = os.path.splitext(path)
    if ending.lower() not in ENDINGS:  # it is read as TOML
        stem, ending = path, ".toml"
    return f"{stem}{TUNED}{ending}"


def notes_path(path: str) -> str:
    """Return where the comments of a tuned file go that can have none."""
    return f"{os.path.splitext(path)[0].removesuffix(TUNED)}{TUNED}.md"


def is_tuned(path: str) -> bool:
    """Return whether a file has the name of a tuned one."""
    return os.path.splitext(path)[0].endswith(TUNED)


def is_same(path: str, other: str) -> bool:
    """Return whether two paths lead to one file."""
    return os.path.realpath(path) == os.path.realpath(other)


def find_config() -> str:
    """Return ``[tool.fp8tune.search] config``, else the only train config below here.

    Tuned configs do not count. Raises ``CannotSearch`` and ``BadSettings``.
    """
    settings = settings_for(os.getcwd())
    if named := settings.search_config:
        path = os.path.relpath(named)
        if not os.path.exists(named):
            where = os.path.relpath(os.path.join(settings.folder, "pyproject.toml"))
            raise CannotSearch(
                f"{path}: no such file; [tool.fp8tune.search] of {where}"
            )
        return path
    configs = list(_configs())
    if len(configs) == 1:
        return configs[0]
    if not configs:
        raise CannotSearch("no train config here: fp8tune search CONFIG --budget 2h")
    names = ", ".join(configs[:SHOWN]) + (", ..." if configs[SHOWN:] else "")
    raise CannotSearch(f"{len(configs)} train configs here, name one: {names}")


def _configs() -> Iterator[str]:
    """Yield the paths of train configs below this folder."""
    for path in (file.path for file in discover((".",))):
        settings = settings_for(os.path.dirname(os.path.abspath(path)))
        if is_tuned(path) or matches(path, settings.folder, settings.exclude):
            continue
        try:
            data = read(path)
            config_at(path, data, Target(), explicit=False)
        except (CannotRead, InvalidText, NotAConfig, Unreadable):
            continue
        yield path
