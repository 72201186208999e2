"""Paths and fingerprints of findings for CI services."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from fp8tune.lint.diagnostic import Diagnostic

CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Variables in which GitHub Actions and GitLab CI name the root of the checkout."""


def from_root(path: str) -> str:
    """Return the path from the root of the checkout, else from the current folder.

    A path outside both is absolute. Bytes that are not UTF-8 stay surrogates.
    """
    absolute = os.path.abspath(path)
    for root in (*(os.environ.get(name, "") for name in CHECKOUTS), os.getcwd()):
        if root and absolute.startswith(os.path.join(root, "")):
            return os.path.relpath(absolute, root).replace(os.sep, "/")
    return absolute


def well_formed(text: str) -> str:
    """Return the text with lone surrogates escaped, which no other program reads."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def fingerprints(findings: Iterable[Diagnostic]) -> Iterator[str]:
    """Yield a name per finding that survives moved lines: from path, rule and key.

    Findings that agree in all three are numbered in their order.
    """
    from hashlib import sha256

    seen: Counter[str] = Counter()
    for found in findings:
        name = "\0".join((from_root(found.path), found.rule, found.key))
        text = f"{name}\0{seen[name]}" if seen[name] else name
        seen[name] += 1
        yield sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
