"""Which config a search without a path means."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fp8tune.lint.discover import CannotRead, discover, matches, read
from fp8tune.lint.settings import settings_for
from fp8tune.toml.document import InvalidToml, Unreadable, parse
from fp8tune.trainers.trainer import recognise

SHOWN = 20
OWN = ".tuned.toml"


class NotOne(Exception):
    """There is no config, or more than one: says what to type."""


def find_config() -> str:
    """``[tool.fp8tune.search] config``, else the only train config below this folder.

    What a search has written does not count. Raises ``NotOne``, ``BadSettings``.
    """
    settings = settings_for(os.getcwd())
    if named := settings.search_config:
        path = os.path.relpath(named)
        if not os.path.exists(named):
            where = os.path.relpath(os.path.join(settings.folder, "pyproject.toml"))
            raise NotOne(f"{path}: no such file; [tool.fp8tune.search] of {where}")
        return path
    found = list(_configs())
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotOne("no train config here: fp8tune search CONFIG --budget 2h")
    shown = ", ".join(found[:SHOWN]) + (", ..." if found[SHOWN:] else "")
    raise NotOne(f"{len(found)} train configs here, name one: {shown}")


def _configs() -> Iterator[str]:
    for path, _ in discover((".",)):
        settings = settings_for(os.path.dirname(os.path.abspath(path)))
        if path.endswith(OWN) or matches(path, settings.folder, settings.exclude):
            continue
        try:
            kind = recognise(parse(read(path)).values)
        except (CannotRead, InvalidToml, Unreadable):
            continue
        if kind.trainer and not kind.fragment:
            yield path
