"""Packages that only some commands need, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec

INSTALL = "pip install '.[search]' in a clone of fp8tune"
"""What installs all of them."""
SEARCH = ("jinja2", "matplotlib", "numpy", "optuna", "rich")
"""What a search and its report need."""
TRIALS = ("torch", "torchao")
"""What trials need besides."""


class Missing(Exception):
    """Packages are not installed; the message names them and the command to type."""


def require(command: str, *names: str) -> None:
    """Raise ``Missing`` with all packages that are not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise Missing(f"{command} needs {', '.join(missing)}: {INSTALL}")
