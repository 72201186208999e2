"""Pack the results of a session into few files, and read such an archive safely.

Needs the standard library alone: a session packs before anything is installed.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path

MAX_PACKED = 16 * 2**20 - 2**16
"""Largest archive that is written [bytes]."""
MAX_FILE, MAX_FILES, MAX_TOTAL = 64 * 2**20, 2000, 256 * 2**20
"""Largest file, number of files and bytes of all that are read from an archive."""
_NAME = re.compile(r"(?:[\w][\w.-]{0,99}/){0,5}[\w][\w.-]{0,99}", re.ASCII)


class BadArchive(Exception):
    """A file is no archive of a session; the message says why."""


def pack(folder: Path, files: Iterable[Path], archive: Path) -> list[Path]:
    """Write the files into an archive of at most ``MAX_PACKED``, or none of it.

    Returns the files that are left out because the archive would be too large: the
    largest first, studies last. Files may be written meanwhile: each is read once. The
    archive replaces an earlier one when it is complete.
    """
    contents = {path: data for path in sorted(files) if (data := _read(path))}
    left_out: list[Path] = []
    by_size = sorted(
        contents,
        key=lambda path: (path.suffix != ".journal", len(contents[path])),
    )
    while len(packed := _packed(folder, contents)) > MAX_PACKED:
        left_out.append(by_size.pop())
        del contents[left_out[-1]]
    part = archive.with_name(f"{archive.name}.part")
    part.write_bytes(packed)
    part.replace(archive)
    return left_out


def _read(path: Path) -> bytes:
    """Return a file's content; empty if it is gone or too large."""
    try:
        return path.read_bytes() if path.stat().st_size <= MAX_FILE else b""
    except OSError:
        return b""


def _packed(folder: Path, contents: dict[Path, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for path, data in contents.items():
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def unpack(archive: Path) -> dict[str, bytes]:
    """Return the files of an archive by their paths in it; raises ``BadArchive``.

    Links, devices, absolute paths, ``..`` and names of other characters than letters,
    digits, ``.``, ``_`` and ``-`` are refused.
    """
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            found = _members(tar)
    except EOFError:
        raise BadArchive(f"{archive}: is cut off; copy it again") from None
    except (OSError, tarfile.TarError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "not a complete .tgz file"
        raise BadArchive(f"{archive}: {why}") from None
    except BadArchive as error:
        raise BadArchive(f"{archive}: {error}") from None
    if not found:
        raise BadArchive(f"{archive}: is empty")
    return found


def _members(tar: tarfile.TarFile) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    total = 0
    for entry in tar:
        name = ascii(entry.name)[1:-1]
        if not entry.isreg():
            raise BadArchive(f"{name} is no plain file")
        if not _NAME.fullmatch(entry.name):
            raise BadArchive(f"{name} is no path of a session's results")
        total += entry.size
        if entry.size > MAX_FILE or total > MAX_TOTAL or len(found) >= MAX_FILES:
            raise BadArchive(f"{name} and what is before it are too large")
        content = tar.extractfile(entry)
        assert content is not None
        found[entry.name] = content.read()
    return found


def files_below(folder: Path) -> list[Path]:
    """Return the plain files below a folder."""
    return [
        Path(root) / name
        for root, _, names in os.walk(folder)
        for name in names
        if (Path(root) / name).is_file()
    ]
