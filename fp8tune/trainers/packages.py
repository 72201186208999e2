"""Versions of packages that files beside a config pin: lock files and requirements.

Only trainers whose runs depend on another package ask (``packages`` in trainer.toml).
The folder of the config is looked at, then those above it up to the repository's root.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from fp8tune.trainers.about import trainers

if TYPE_CHECKING:
    from fp8tune.trainers.faults import Fault, Loaded
    from fp8tune.trainers.trainer import Trainer

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
REQUIREMENTS = re.compile(r"(?:requirements|constraints)[\w.-]*\.txt")
PROJECT = "pyproject.toml"

MAX_BYTES = 16 * 1024 * 1024
"""Largest file that is read; lock files of large projects have a few MB."""
MAX_FOLDERS = 8
"""Folders that are looked at, the config's own and those above it."""
MAX_FILES = 10
"""Files of requirements that are read in one folder."""

_REQUIREMENT = re.compile(
    r"\s*([A-Za-z0-9][\w.-]{0,99})\s*(?:\[[^]]{0,99}\])?\s*(.{0,200})"
)
_BOUND = re.compile(r"(===?|~=|<=|<)\s*(\d{1,4}(?:\.\d{1,6}){0,3})")


def add_releases(loaded: Loaded, known: Trainer, path: str) -> None:
    """Add the releases of the packages that a trainer asks for to a loaded config.

    The release of a package ``x`` is the value ``x_release``; one that nothing pins is
    left out. Faults that say which ``package`` and ``release`` they are not of go.
    """
    found = pinned(os.path.dirname(os.path.abspath(path)))
    mine = (name for name in known.about.packages if name in found)
    releases = {f"{name}_release": found[name] for name in mine}
    loaded.values.update(releases)
    loaded.faults[:] = [each for each in loaded.faults if not _is_met(each, found)]


def _is_met(fault: Fault, found: dict[str, str]) -> bool:
    """Whether the release that a fault asks for is pinned, by its first number."""
    release = found.get(fault.facts.get("package", ""), "")
    return bool(release) and release.partition(".")[0] == fault.facts["release"]


@cache
def pinned(folder: str) -> dict[str, str]:
    """Return the release of each package that the nearest files pin.

    A bound is a release too, the newest that it allows: ``<5`` is 4, ``<5.3`` is 5.2.
    """
    wanted = {name for about in trainers().values() for name in about.packages}
    for _ in range(MAX_FOLDERS):
        found: dict[str, str] = {}
        for name, release in _of_folder(folder):
            if name in wanted:
                found.setdefault(name, release)
        above = os.path.dirname(folder)
        if found or above == folder or os.path.exists(os.path.join(folder, ".git")):
            return found
        folder = above
    return {}


def _of_folder(folder: str) -> Iterator[tuple[str, str]]:
    """Yield packages and releases of a folder's files, the surest first."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in (each for each in LOCKS if each in names):
        yield from _of_lock(_toml(os.path.join(folder, name)))
    texts = [name for name in names if REQUIREMENTS.fullmatch(name)][:MAX_FILES]
    for name in texts:
        yield from _of_lines(_read(os.path.join(folder, name)).splitlines())
    if PROJECT in names:
        project = _toml(os.path.join(folder, PROJECT)).get("project")
        lines = project.get("dependencies") if isinstance(project, dict) else None
        if isinstance(lines, list):
            yield from _of_lines([line for line in lines if isinstance(line, str)])


def _of_lock(lock: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in (*_list(lock.get("package")), *_list(lock.get("packages"))):
        if isinstance(entry, dict):
            name, release = entry.get("name"), entry.get("version")
            if isinstance(name, str) and isinstance(release, str):
                yield _plain(name), release


def _of_lines(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        match = _REQUIREMENT.match(line.partition("#")[0].partition(";")[0])
        bounds = _BOUND.findall(match[2]) if match else []
        if match and bounds:
            yield _plain(match[1]), _newest(min(bounds, key=_by_sign))


def _by_sign(bound: tuple[str, str]) -> int:
    return ("==", "===", "~=", "<=", "<").index(bound[0])


def _newest(bound: tuple[str, str]) -> str:
    """Return the newest release that a bound allows, as far as it says."""
    sign, release = bound
    if sign != "<":
        return release
    first, *rest = [int(part) for part in release.split(".")]
    if any(rest[1:]):
        return f"{first}.{rest[0]}"
    return f"{first}.{rest[0] - 1}" if any(rest) else str(first - 1)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _toml(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _read(path: str) -> str:
    """Return a file's text; ``""`` for one that is too large or no plain file."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_BYTES:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_BYTES)
    except OSError:
        return ""
