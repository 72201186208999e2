"""Lint again whenever a file changes, for a terminal beside an editor."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator

from fp8tune.config.directive import PROJECT
from fp8tune.config.discover import discover, reading
from fp8tune.config.settings import BadSettings, forget_projects, settings_for
from fp8tune.lint.selection import Problem
from fp8tune.trainers.about import trainers
from fp8tune.words import counted, plain

PAUSE = 0.5
"""How long to wait between two looks at the files [s]."""
SHARE = 10
"""Looks at the files take at most one part in so many of the time."""
CLEAR = "\x1b[2J\x1b[3J\x1b[H"
"""Clears a terminal, and goes to its first line."""

Stamps = dict[str, tuple[int, int] | None]
"""When each file was changed [ns] and its size; ``None`` for one that is not there."""


def watch(check: Callable[[], int], paths: tuple[str, ...]) -> int:
    """Check ``paths`` now and after each change; Ctrl-C returns the last exit code.

    Watched are the configs, all files that their checks read, and what projects say
    of them. A ``Problem`` of the first check is raised, a later one is shown.
    """
    gc.enable()
    code, read = -1, set[str]()
    try:
        while True:
            if sys.stdout.isatty():
                print(CLEAR, end="", flush=True)
            before = _stamps(paths, read)
            with reading({}) as read:
                code = _checked(check, again=code >= 0)
            after = _stamps(paths, read)
            there = sum(stamp is not None for stamp in after.values())
            print(f"watching {counted(there, 'file')}; Ctrl-C ends", flush=True)
            checked = {path: before.get(path, stamp) for path, stamp in after.items()}
            while checked == after:
                start = time.monotonic()
                after = _stamps(paths, read)
                time.sleep(max(PAUSE, SHARE * (time.monotonic() - start)))
            forget_projects()
    except KeyboardInterrupt:
        print()
        return max(0, code)


def _checked(check: Callable[[], int], *, again: bool) -> int:
    """Return the exit code of a check; a ``Problem`` of a first one is raised."""
    try:
        return check()
    except Problem as error:
        if not again:
            raise
        print(f"fp8tune: {plain(str(error))}", file=sys.stderr)
        return 2


def _stamps(paths: tuple[str, ...], read: set[str]) -> Stamps:
    """Return the state of all files on which the findings depend."""
    files = {os.path.abspath(file.path) for file in discover(paths)} | read
    return {path: _stamp(path) for path in (*files, *_of_projects(files))}


def _of_projects(files: set[str]) -> Iterator[str]:
    """Yield the files of settings, rules and baselines, and of users' trainers."""
    for folder in {os.path.dirname(path) for path in files}:
        above = folder
        while above != os.path.dirname(above):
            yield os.path.join(above, PROJECT)
            above = os.path.dirname(above)
        try:
            settings = settings_for(folder)
        except BadSettings:
            continue
        if settings.baseline:
            yield settings.baseline
        for place in settings.rules:
            for inside, _, names in os.walk(place):
                yield from (os.path.join(inside, name) for name in names)
    for about in trainers().values():
        if about.own:
            yield about.own.path


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
