"""Records of trials in a file, with the config and the GPUs that they are of.

``NAME.jsonl`` has one record a line, as ``fp8tune search --runner replay`` reads it;
``NAME.toml`` beside it is the config.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fp8tune.config.reader import Config
from fp8tune.job import Job, Target
from fp8tune.search.plan import config_to_search
from fp8tune.trials.record import Record, parse_all

TARGET = ("gpu", "world_size")
"""Fields that are added to each record: the GPU's name in ``gpus.toml``, and GPUs."""


class Measured(NamedTuple):
    """A record and the config, on its GPUs, that it is of."""

    config: Config
    record: Record

    @property
    def job(self) -> Job:
        """The job of the record's setting, with the same tokens per step."""
        job = self.config.job
        keys = job.words.keys
        return job.keep_tokens(
            {k: v for k, v in self.record.knobs.items() if k in keys}
        )


def add(path: Path, config: Config, record: Record) -> None:
    """Append a record; write the config beside it if this is the first one."""
    path.with_suffix(".toml").write_bytes(config.data)
    target = config.job.target
    where = {"gpu": target.gpu, "world_size": target.world_size}
    line = record._replace(extra={**record.extra, **where}).line()
    with path.open("a", encoding="utf-8") as file:
        print(line, file=file, flush=True)


def read(path: Path) -> Iterator[Measured]:
    """Yield the records of a file with their configs.

    Raises ``BadRecord``, ``CannotSearch`` or ``InvalidText`` if the files are not what
    ``add`` writes.
    """
    config = path.with_suffix(".toml")
    data, configs = config.read_bytes(), dict[tuple[str, int], Config]()
    with path.open(encoding="utf-8") as file:
        for record in parse_all(iter(file)):
            gpu, size = (record.extra.get(name) for name in TARGET)
            key = str(gpu or ""), size if isinstance(size, int) else 0
            if key not in configs:
                configs[key] = config_to_search(config.name, data, target(*key))
            yield Measured(configs[key], record)


def target(gpu: str, world_size: int) -> Target:
    """Return a target that wins over a config's header comment; empty fields do not."""
    origins = "--gpu" if gpu else "", "--world-size" if world_size else ""
    return Target(gpu, world_size, *origins)
