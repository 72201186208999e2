"""Which files to check, and their bytes."""

# no future annotations: as strings, they double the import time of a NamedTuple
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatch
from typing import NamedTuple

from fp8tune.formats import ENDINGS, MAX_BYTES

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})

_ENDINGS = tuple(ENDINGS)


class Found(NamedTuple):
    """A file to check; ``explicit`` if the user named it.

    Of several files that are one job, ``beside`` are the others, ``trainer`` is whose
    job it is where the file's own keys do not say it, and ``note`` says that they are.
    """

    path: str
    explicit: bool
    beside: tuple[str, ...] = ()
    trainer: str = ""
    note: str = ""


class CannotRead(Exception):
    """A file cannot be read; says which and why."""


class Reading(NamedTuple):
    """Texts that are read in place of files, and which files were read.

    Both by absolute path.
    """

    texts: Mapping[str, bytes]
    paths: set[str]


_reading: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading(texts: Mapping[str, bytes]) -> Iterator[set[str]]:
    """Read these texts, such as those of an editor, in place of the files on disk.

    Yield the set of all paths that are read meanwhile.
    """
    paths: set[str] = set()
    token = _reading.set(Reading(texts, paths))
    try:
        yield paths
    finally:
        _reading.reset(token)


def discover(paths: tuple[str, ...]) -> Iterator[Found]:
    """The files that ``paths`` mean, folders searched in sorted order.

    Hidden folders, symbolic links to folders, and what ``.gitignore`` names are not
    entered. A file is found once, whatever links lead to it: as named if it was named.
    """
    folders = {path for path in paths if path != "-" and os.path.isdir(path)}
    files = {path: os.path.realpath(path) for path in paths if path not in folders}
    named, seen = {*files.values()}, set()
    for path in paths:
        explicit = path in files
        for file, target in [(path, files[path])] if explicit else _folder(path):
            if target not in seen and (explicit or target not in named):
                seen.add(target)
                yield Found(file, explicit=explicit)


def _folder(path: str) -> Iterator[tuple[str, str]]:
    """The files of a config's format below a folder: its own, then its folders'.

    Each with the file that it is, which differs for a link.
    """
    from fp8tune.config.gitignore import ignored_above

    waiting = [(path, os.path.realpath(path), ignored_above(path))]
    while waiting:
        folder, place, ignored = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        ignored = ignored.inside(folder, {entry.name for entry in entries})
        inside = []
        for entry in entries:
            name, target = entry.name, os.path.join(place, entry.name)
            if entry.is_dir(follow_symlinks=False):
                hidden = name.startswith(".") or name in SKIPPED_FOLDERS
                if not hidden and not ignored.covers(name, is_folder=True):
                    inside.append((entry.path, target, ignored.below(name)))
            elif name.endswith(_ENDINGS) and not ignored.covers(name, is_folder=False):
                if not entry.is_symlink():
                    yield os.path.normpath(entry.path), target
                elif os.path.exists(entry.path) and not os.path.isdir(entry.path):
                    yield os.path.normpath(entry.path), os.path.realpath(entry.path)
        waiting += reversed(inside)


def read(path: str) -> bytes:
    """The bytes of a regular file, or of stdin for ``-``.

    One byte more than the limit at most, so that the caller sees the excess.
    Raises ``CannotRead``.
    """
    if instead := _reading.get():
        place = os.path.abspath(path)
        instead.paths.add(place)
        if place in instead.texts:
            return instead.texts[place]
    try:
        if path == "-":
            if sys.stdin is None:
                raise CannotRead("-: stdin is closed")
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise CannotRead(f"{path}: is a folder: name a config in it")
        if not stat.S_ISREG(status.st_mode):
            raise CannotRead(f"{path}: not a regular file; pipe it in and name it -")
        with open(path, "rb", buffering=0) as file:
            return file.read(MAX_BYTES + 1 if status.st_size > MAX_BYTES else -1)
    except FileNotFoundError as error:
        raise CannotRead(f"{path}: {error.strerror}{meant(path)}") from None
    except OSError as error:
        raise CannotRead(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise CannotRead(f"{path!r}: not a file name") from None


def meant(path: str) -> str:
    """Return ``; did you mean ...?`` if a config or folder has almost this name."""
    from fp8tune.suggest import closest

    folder, name = os.path.split(path)
    try:
        entries = list(os.scandir(folder or "."))
    except OSError:
        return ""
    configs = {e.name for e in entries if e.name.endswith(_ENDINGS) or e.is_dir()}
    stems = {os.path.splitext(each)[0]: each for each in sorted(configs - {name})}
    near = stems.get(closest(os.path.splitext(name)[0], stems), "")
    return f"; did you mean `{os.path.join(folder, near)}`?" if near else ""


def matches(path: str, folder: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path matches a pattern, or lies in a folder that does.

    Patterns are relative to ``folder``; ``*`` crosses slashes.
    """
    if not patterns:
        return False
    relative = os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")
    parts = relative.split("/")
    prefixes = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    return any(
        fnmatch(name, pattern.rstrip("/"))
        for pattern in patterns
        for name in (*prefixes, *parts)
    )
