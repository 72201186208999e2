"""Settings of a run: ``[tool.fp8tune]`` of the project, and options."""

# no future annotations: as strings, they double the import time of a NamedTuple
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from fp8tune.config.directive import MAX_WORLD_SIZE, PROJECT, BadTarget, parse_gpu
from fp8tune.formats.document import MAX_BYTES, Unreadable
from fp8tune.formats.toml.document import InvalidToml, parse
from fp8tune.job import Target
from fp8tune.suggest import closest
from fp8tune.trainers.about import misnamed, named


class BadSettings(Exception):
    """``[tool.fp8tune]`` cannot be used; the message says where and why."""


class Options(NamedTuple):
    """The options of the command line.

    ``overrides`` are the trainer's own arguments, ``script`` the GPUs that a launch
    script requests, ``beside`` the other files of each config's job. ``count_fixes``
    asks how many findings can be fixed.
    """

    gpu: str = ""
    world_size: int = 0
    trainer: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    stdin_filename: str = "-"
    force_exclude: bool = False
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    add_ignore: bool = False
    ignore_words: str = ""
    baseline: str = ""
    update_baseline: bool = False
    fail_on: str = ""
    require_configs: bool = False
    overrides: tuple[str, ...] = ()
    script: Target = Target()
    beside: tuple[str, ...] = ()
    count_fixes: bool = False


class Settings(NamedTuple):
    """The settings of a project; ``folder`` contains its pyproject.toml."""

    folder: str = ""
    gpu: str = ""
    world_size: int = 0
    trainer: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: tuple[tuple[str, str], ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rules: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    baseline: str = ""
    search_config: str = ""
    gpus_per_node: int = 0
    fail_on: str = ""
    extra_keys: tuple[str, ...] = ()

    @property
    def selectors(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the settings that select rules, with their file and name."""
        place = f"{os.path.join(self.folder, 'pyproject.toml')}: [tool.fp8tune]"
        yield f"{place} `select`", self.select
        yield f"{place} `ignore`", self.ignore
        yield f"{place} `severity`", tuple(name for name, _ in self.severity)
        for _, rules in self.per_file_ignores:
            yield f"{place} `per-file-ignores`", rules

    def complete(self, target: Target) -> Target:
        """The target of the command line, with what it leaves open from here."""
        if self.gpu and not target.gpu:
            target = target._replace(gpu=self.gpu, gpu_origin=PROJECT)
        if self.world_size and not target.world_size:
            size = self.world_size
            target = target._replace(world_size=size, world_size_origin=PROJECT)
        if self.gpus_per_node and not target.gpus_per_node:
            target = target._replace(gpus_per_node=self.gpus_per_node)
        return target


SEVERITIES: tuple[str, ...] = ("error", "warning", "note")

FAIL_ON = (*SEVERITIES, "never")
"""What a run can fail on: findings of a severity or above."""

_LISTS = ("select", "ignore", "rules", "exclude", "extra-keys")
_KEYS = (
    *_LISTS,
    "gpu",
    "world-size",
    "gpus-per-node",
    "trainer",
    "baseline",
    "fail-on",
    "severity",
    "per-file-ignores",
    "search",
)


@cache
def settings_for(folder: str) -> Settings:
    """Return the settings for files in ``folder`` (an absolute path).

    Raises ``BadSettings``.
    """
    parent = ""
    while parent != folder:
        found = _settings_in(folder)
        if found is not None:
            return found
        folder, parent = os.path.dirname(folder), folder
    return Settings()


def extra_keys_at(path: str) -> tuple[str, ...]:
    """Return the keys of the user's fork, by the project of a file.

    None where its settings cannot be used: who reads these says so.
    """
    with suppress(BadSettings):
        return settings_for(os.path.dirname(os.path.abspath(path))).extra_keys
    return ()


@cache
def _settings_in(folder: str) -> Settings | None:
    path = os.path.join(folder, PROJECT)
    table = _table(path)
    return None if table is None else _Reader(path, table).settings()


def _table(path: str) -> dict[str, Any] | None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        return None
    if b"fp8tune" not in data:
        return None
    try:
        tool = parse(data).values.get("tool", {})
    except InvalidToml as error:
        line, column = error.position
        raise BadSettings(f"{path}:{line}:{column}: {error.reason}") from None
    except Unreadable as error:
        raise BadSettings(f"{path}: {error}") from None
    table = tool.get("fp8tune") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise BadSettings(f"{path}: [tool.fp8tune] is a table")
    return table


class _Reader:
    def __init__(self, path: str, table: dict[str, Any]) -> None:
        self.path = path
        self.table = table

    def fail(self, reason: str) -> BadSettings:
        return BadSettings(f"{self.path}: [tool.fp8tune] {reason}")

    def settings(self) -> Settings:
        for key in self.table:
            if key not in _KEYS:
                raise self.fail(f"has no setting `{key}`{_meant(key, _KEYS)}")
        folder = os.path.dirname(self.path)
        packs = (os.path.join(folder, pack) for pack in self.texts("rules"))
        return Settings(
            folder=folder,
            gpu=self.gpu(),
            world_size=self.number_of_gpus("world-size"),
            gpus_per_node=self.number_of_gpus("gpus-per-node"),
            trainer=self.trainer(),
            select=self.texts("select"),
            ignore=self.texts("ignore"),
            severity=self.severity(),
            per_file_ignores=self.per_file_ignores(),
            rules=tuple(map(os.path.normpath, packs)),
            exclude=self.texts("exclude"),
            baseline=self.baseline(folder),
            search_config=self.search_config(folder),
            fail_on=self.fail_on(),
            extra_keys=self.texts("extra-keys"),
        )

    def search_config(self, folder: str) -> str:
        """Return the config that a search without a path uses."""
        table = self.table.get("search", {})
        if not isinstance(table, dict):
            raise self.fail("`search` is a table")
        for key in table:
            if key != "config":
                raise self.fail(f"search has no setting `{key}`; known: config")
        value = table.get("config", "")
        if not isinstance(value, str):
            raise self.fail("`search.config` is the name of a file")
        return os.path.join(folder, value) if value else ""

    def baseline(self, folder: str) -> str:
        value = self.table.get("baseline", "")
        if not isinstance(value, str):
            raise self.fail("`baseline` is the name of a file")
        return os.path.join(folder, value) if value else ""

    def fail_on(self) -> str:
        value = self.table.get("fail-on", "")
        if "fail-on" in self.table and value not in FAIL_ON:
            near = _meant(value, FAIL_ON)
            raise self.fail(f"`fail-on` is one of {', '.join(FAIL_ON)}{near}")
        return str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.fail(f"`{key}` is an array of strings")
        return tuple(value)

    def gpu(self) -> str:
        value = self.table.get("gpu", "")
        if not isinstance(value, str):
            raise self.fail('`gpu` is a name, such as "h100"')
        try:
            return parse_gpu(value) if value else ""
        except BadTarget as error:
            raise self.fail(f"gpu: {error}") from None

    def number_of_gpus(self, key: str) -> int:
        value = self.table.get(key, 0)
        if key in self.table and (
            type(value) is not int or not 0 < value <= MAX_WORLD_SIZE
        ):
            raise self.fail(f"`{key}` is a number of GPUs")
        return int(value)

    def trainer(self) -> str:
        value = self.table.get("trainer", "")
        if isinstance(value, str) and ("/" in value or value.endswith(".toml")):
            from fp8tune.config.own_trainer import BadTrainer, add_trainer

            try:
                return add_trainer(value, os.path.dirname(self.path))
            except BadTrainer as error:
                raise self.fail(f"`trainer`: {error}") from None
        value = named(str(value))
        if "trainer" in self.table and (wrong := misnamed(value)):
            raise self.fail(f"`trainer`: {wrong}")
        return value

    def severity(self) -> tuple[tuple[str, str], ...]:
        table = self.table.get("severity", {})
        levels = table.values() if isinstance(table, dict) else [None]
        for level in levels:
            if level not in SEVERITIES:
                near = _meant(level, SEVERITIES)
                raise self.fail(
                    f"`severity` maps rules to {', '.join(SEVERITIES)}{near}"
                )
        return tuple(table.items())

    def per_file_ignores(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        table = self.table.get("per-file-ignores", {})
        if not isinstance(table, dict) or any(
            not isinstance(rules, list) or not all(isinstance(r, str) for r in rules)
            for rules in table.values()
        ):
            raise self.fail("`per-file-ignores` maps patterns to arrays of rules")
        return tuple((pattern, tuple(rules)) for pattern, rules in table.items())


def _meant(word: Any, candidates: tuple[str, ...]) -> str:
    near = closest(word, candidates) if isinstance(word, str) else ""
    return f"; did you mean `{near}`?" if near else ""
