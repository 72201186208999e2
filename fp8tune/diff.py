"""Write changes of a file as a unified diff."""

from __future__ import annotations

import difflib
import os
import re


def unified_diff(path: str, before: bytes, after: bytes) -> str:
    """Return the changes of a file as a unified diff."""
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
    """Return a file's name as git writes it in a diff: quoted if necessary."""
    if path.isprintable() and not set(path) & set('"\\'):
        return f"{path}\t" if " " in path else path
    octal = (f"\\{byte:03o}" for byte in os.fsencode(path))
    return f'"{"".join(octal)}"'
