"""Find the folders of studies without opening a study."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

CALIBRATION = ".fp8tune/calibration.jsonl"
"""The file of measured runs that every command reads by default."""
FOLDER = ".fp8tune"
"""The folder of studies and of measured runs, if no option names another."""
IGNORE = ".gitignore"
JOURNAL = "study.journal"
"""The file that holds a study, unless it lies in another storage."""
LOCK = "lock"
"""The file that the search of a study locks."""
EXPORT = "trials.jsonl"
"""The export that a search leaves in its study's folder."""
MOST_FOLDERS = 20_000
"""Folders that are looked through for studies at most."""
MOST = 200
"""Studies that are compared with the one to join, the newest first."""
SHOWN = 5
"""Studies that a message names."""


class NoStudy(Exception):
    """No study has this name, or several begin with it; the message lists studies."""


def make_folder(folder: str) -> None:
    """Create a folder for studies; a new ``.fp8tune`` is ignored by git.

    Raises ``OSError``.
    """
    top = _top(folder)
    new = bool(top) and not os.path.isdir(top)
    os.makedirs(folder, exist_ok=True)
    if new:
        with open(os.path.join(top, IGNORE), "w", encoding="utf-8") as file:
            file.write("# made by fp8tune\n*\n")


def _top(folder: str) -> str:
    """Return the part of a path that ends with ``.fp8tune``, or ``""``."""
    while folder and os.path.basename(folder) != FOLDER:
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return folder


def find(study: str, folder: str, stored: Sequence[str] = ()) -> str:
    """Return the folder of a study, by its path or the beginning of its name.

    ``folder`` is the folder of studies. ``stored`` are names of studies in a storage,
    which need not have a folder yet. Raises ``NoStudy``.
    """
    if os.path.isdir(study):
        return study
    names = sorted({*map(os.path.basename, within(folder)), *stored})
    found = [name for name in names if name.startswith(study)]
    if study in names or len(found) == 1:
        return os.path.join(folder, study if study in names else found[0])
    if found:
        raise NoStudy(f"{study} begins several studies: {_some(found)}")
    known = f"; there are {_some(names)}" if names else ""
    other = "give the path of one elsewhere (`fp8tune studies FOLDER` lists them)"
    raise NoStudy(f"no study {study} in {os.path.abspath(folder)}{known}; {other}")


def below(root: str) -> Iterator[str]:
    """Yield the folders of studies in every ``.fp8tune`` below a folder."""
    for count, (folder, names, _) in enumerate(os.walk(root)):
        if count >= MOST_FOLDERS:
            return
        if FOLDER in names:
            yield from within(os.path.normpath(os.path.join(folder, FOLDER)))
        names[:] = sorted(name for name in names if not name.startswith("."))


def within(folder: str) -> list[str]:
    """Return the folders of studies in a folder, none if there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names]


def newest(folder: str) -> list[str]:
    """Return the folders of the ``MOST`` studies in a folder last written."""
    folders = within(folder)
    try:
        times = {folder: os.stat(folder).st_mtime for folder in folders}
    except OSError:
        return []
    return sorted(folders, key=lambda folder: (-times[folder], folder))[:MOST]


def has_journal(folder: str) -> bool:
    """Return whether a study lies in its folder, and not in another storage."""
    return os.path.lexists(os.path.join(folder, JOURNAL))


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if names[SHOWN:] else "")
