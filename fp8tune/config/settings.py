"""Settings of a run: ``[tool.fp8tune]`` of the project, and options."""

# no future annotations: as strings, they double the import time of a NamedTuple
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from fp8tune.config.directive import MAX_WORLD_SIZE, PROJECT, BadTarget, parse_gpu
from fp8tune.formats.document import MAX_BYTES, Unreadable
from fp8tune.formats.toml.document import InvalidToml, parse
from fp8tune.job import Target
from fp8tune.suggest import meant
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
        origins = PROJECT * bool(self.gpu), PROJECT * bool(self.world_size)
        own = Target(self.gpu, self.world_size, *origins, self.gpus_per_node)
        return target.completed(own)


SEVERITIES: tuple[str, ...] = ("error", "warning", "note")

FAIL_ON = (*SEVERITIES, "never")
"""What a run can fail on: findings of a severity or above."""


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number_of_gpus(value: Any) -> bool:
    return type(value) is int and 0 < value <= MAX_WORLD_SIZE


_SETTINGS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("select", "ignore", "rules", "exclude", "extra-keys"),
        (_are_texts, "is an array of strings"),
    ),
    **dict.fromkeys(
        ("world-size", "gpus-per-node"), (_is_number_of_gpus, "is a number of GPUs")
    ),
    "gpu": (_is_text, 'is a name, such as "h100"'),
    "trainer": (lambda _: True, ""),
    "baseline": (_is_text, "is the name of a file"),
    "fail-on": (FAIL_ON.__contains__, f"is one of {', '.join(FAIL_ON)}"),
    "severity": (
        lambda table: isinstance(table, dict),
        f"maps rules to {', '.join(SEVERITIES)}",
    ),
    "per-file-ignores": (
        lambda table: isinstance(table, dict) and all(map(_are_texts, table.values())),
        "maps patterns to arrays of rules",
    ),
    "search": (lambda table: isinstance(table, dict), "is a table"),
}
"""What each setting may be, and that in words."""


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


def forget_projects() -> None:
    """Read what projects say again when it is asked for next.

    That are their settings, the packages that they pin, and the users' own trainers.
    """
    from fp8tune.config.own_trainer import reread_trainers
    from fp8tune.trainers.packages import pinned

    for cached in (settings_for, _settings_in, pinned):
        cached.cache_clear()
    reread_trainers()


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
        for key, value in self.table.items():
            if key not in _SETTINGS:
                raise self.fail(f"has no setting `{key}`{meant(key, _SETTINGS)}")
            fits, words = _SETTINGS[key]
            if not fits(value):
                near = meant(value, FAIL_ON) if key == "fail-on" else ""
                raise self.fail(f"`{key}` {words}{near}")
        get, folder = self.table.get, os.path.dirname(self.path)
        packs = (os.path.join(folder, pack) for pack in get("rules", ()))
        return Settings(
            folder=folder,
            gpu=self.gpu(get("gpu", "")),
            world_size=get("world-size", 0),
            gpus_per_node=get("gpus-per-node", 0),
            trainer=self.trainer(get("trainer", "")),
            select=tuple(get("select", ())),
            ignore=tuple(get("ignore", ())),
            severity=self.severity(get("severity", {})),
            per_file_ignores=tuple(
                (pattern, tuple(rules))
                for pattern, rules in get("per-file-ignores", {}).items()
            ),
            rules=tuple(map(os.path.normpath, packs)),
            exclude=tuple(get("exclude", ())),
            baseline=self.file(get("baseline", "")),
            search_config=self.search_config(get("search", {})),
            fail_on=get("fail-on", ""),
            extra_keys=tuple(get("extra-keys", ())),
        )

    def file(self, name: str) -> str:
        """Return the path of a file that is named from the project's folder."""
        return os.path.join(os.path.dirname(self.path), name) if name else ""

    def search_config(self, table: dict[str, Any]) -> str:
        """Return the config that a search without a path uses."""
        for key in table:
            if key != "config":
                raise self.fail(f"search has no setting `{key}`; known: config")
        name = table.get("config", "")
        if not isinstance(name, str):
            raise self.fail("`search.config` is the name of a file")
        return self.file(name)

    def gpu(self, name: str) -> str:
        try:
            return parse_gpu(name) if name else ""
        except BadTarget as error:
            raise self.fail(f"gpu: {error}") from None

    def trainer(self, value: Any) -> str:
        if isinstance(value, str) and ("/" in value or value.endswith(".toml")):
            from fp8tune.config.own_trainer import BadTrainer, add_trainer

            try:
                return add_trainer(value, os.path.dirname(self.path))
            except BadTrainer as error:
                raise self.fail(f"`trainer`: {error}") from None
        name = named(str(value))
        if "trainer" in self.table and (wrong := misnamed(name)):
            raise self.fail(f"`trainer`: {wrong}")
        return name

    def severity(self, table: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        for level in table.values():
            if level not in SEVERITIES:
                _, words = _SETTINGS["severity"]
                raise self.fail(f"`severity` {words}{meant(level, SEVERITIES)}")
        return tuple(table.items())
