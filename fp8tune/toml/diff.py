"""What changes in a file, as a patch."""

from __future__ import annotations

import difflib
import re


def unified_diff(path: str, before: bytes, after: bytes) -> str:
    """What changes in a file, as a patch."""
    old, new = (
        re.findall(r"[^\n]*\n|[^\n]+", data.decode(errors="surrogateescape"))
        for data in (before, after)
    )
    lines = difflib.unified_diff(old, new, path, path)
    marked = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )
    return "".join(marked)
