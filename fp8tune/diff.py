"""What changes in a file, as a patch."""

from __future__ import annotations

import difflib
import os
import re


def unified_diff(path: str, before: bytes, after: bytes) -> str:
    """What changes in a file, as a patch."""
    old, new = (
        re.findall(r"[^\n]*\n|[^\n]+", data.decode(errors="surrogateescape"))
        for data in (before, after)
    )
    name = _name(path)
    lines = difflib.unified_diff(old, new, name, name)
    marked = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )
    return "".join(marked)


def _name(path: str) -> str:
    """A file's name as it stands in a patch: in quotes, as git does, if it is odd."""
    if path.isprintable() and not set(path) & set('"\\'):
        return f"{path}\t" if " " in path else path
    octal = (f"\\{byte:03o}" for byte in os.fsencode(path))
    return f'"{"".join(octal)}"'
