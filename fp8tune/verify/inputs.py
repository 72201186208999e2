"""Which files of a run are logs and which are traces."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from fp8tune.verify.unpack import Blocks

MAX_ENTRIES, MAX_DEPTH = 100_000, 8
"""How much of a run's folder is searched: its files and folders, and their depth."""

SKIPPED = frozenset({".git", "__pycache__", "node_modules", "site-packages", "venv"})

_CONFIGS = (".toml", ".yaml", ".yml")
_TRACE_NAME = re.compile(r"trace.*\.json(\.gz|\.zip)?$|\.pt\.trace\.json")
_LOG_NAME = re.compile(r"\.(log|out|err|jsonl)(\.gz)?$|^(std(out|err)|log|.*log\.txt)$")
_PACKAGES = re.compile(r"(?:^|[/\\])files[/\\]requirements\.txt$")
_EVENTS = re.compile(rb'"(traceEvents|schemaVersion|deviceProperties|ph)"\s*:')


class NoRun(Exception):
    """A path is no log, trace or folder of a run; the message says why."""


@dataclass
class Inputs:
    """The files of a run by their kind; ``-`` among the logs is stdin.

    ``packages`` are lists of what was installed, as Weights & Biases keeps them.
    """

    logs: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    configs: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)


def inputs(paths: tuple[str, ...]) -> Inputs:
    """Return what the paths mean; folders are searched.  Raises ``NoRun``."""
    found = Inputs()
    for path in paths:
        if path == "-":
            found.logs.append(path)
        elif os.path.isdir(path):
            _add_folder(path, found)
        elif path.endswith(_CONFIGS) and os.path.exists(path):
            raise NoRun(f"{path}: a config, no log; write --config {path}")
        else:
            kind = kind_of(path)
            (found.traces if kind == "trace" else found.logs).append(path)
    return found


def _add_folder(folder: str, found: Inputs) -> None:
    """Add the logs, traces and configs below a folder, by their names."""
    before = len(found.logs) + len(found.traces)
    for path in files_below(folder):
        name = os.path.basename(path)
        if name.endswith(_CONFIGS):
            found.configs.append(path)
        elif _PACKAGES.search(path):
            found.packages.append(path)
        elif _TRACE_NAME.search(name):
            found.traces.append(path)
        elif _LOG_NAME.search(name):
            found.logs.append(path)
    if len(found.logs) + len(found.traces) == before:
        reason = "no log (*.log, *.out, *.err, *.jsonl) and no trace (*trace*.json)"
        raise NoRun(f"{folder}: {reason} in this folder; name the file itself")


def files_below(folder: str) -> Iterator[str]:
    """The files below a folder, in sorted order; links to folders are not entered.

    Raises ``NoRun`` for too many.
    """
    seen = 0
    waiting = [(folder, 0)]
    while waiting:
        here, depth = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            continue
        inside = []
        for entry in entries:
            seen += 1
            if seen > MAX_ENTRIES:
                reason = f"more than {MAX_ENTRIES:,} files; name the log and the trace"
                raise NoRun(f"{folder}: {reason}")
            if entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH and entry.name not in SKIPPED:
                    inside.append((entry.path, depth + 1))
            elif entry.is_file():
                yield os.path.normpath(entry.path)
        waiting += reversed(inside)


def kind_of(path: str) -> Literal["log", "trace"]:
    """Return whether a file is a trace, by its first bytes; raises ``NoRun``."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise NoRun(f"{path}: not a regular file; pipe it in and name it -")
        with open(path, "rb") as file:
            blocks = Blocks(file)
            head = next(iter(blocks), b"").lstrip()
    except OSError as error:
        raise NoRun(f"{path}: {error.strerror}") from None
    if not head:
        raise NoRun(f"{path}: {blocks.cut or 'empty'}")
    is_events = head.startswith((b"{", b"[")) and _EVENTS.search(head)
    return "trace" if is_events else "log"
