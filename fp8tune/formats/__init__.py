"""The formats of configs: bytes to a document, by the ending of the file's name.

A reader is imported for the first file of its format. All but TOML's are looked up by
name: ``formats/NAME/document.py`` has ``parse``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fp8tune.formats.document import MAX_BYTES as MAX_BYTES
from fp8tune.formats.document import ConfigDocument, NoReader, Unreadable
from fp8tune.formats.toml.document import parse as parse_toml

if TYPE_CHECKING:
    from types import ModuleType

_HUGE = rb"0[xob][0-9a-fA-F_]{3000}"
"""A number that Python reads and cannot write as a decimal one."""

TITLES = {"toml": "TOML", "yaml": "YAML", "json": "JSON", "bash": "bash"}
"""The formats, and how people write their names."""

ENDINGS = {
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".hjson": "json",
    ".sh": "bash",
    ".sbatch": "bash",
    ".slurm": "bash",
    ".bash": "bash",
}
"""The format of a file by the ending of its name."""


ABOUT_SCRIPT = (
    "program",
    "launcher",
    "processes",
    "unknown",
    "unresolved",
    "maybe",
    "environment",
    "obstacle",
)
"""Keys of a bash document that are no flags (``formats/bash/document.py``)."""


def format_of(path: str) -> str:
    """The format of a file by its name; TOML where the name does not say."""
    dot = path.rfind(".")
    return ENDINGS.get(path[dot:].lower(), "toml") if dot >= 0 else "toml"


def parse(data: bytes, path: str, arguments: tuple[str, ...] = ()) -> ConfigDocument:
    """Read the bytes of a config; raises ``InvalidText`` and ``Unreadable``.

    ``arguments`` are those of a script.
    """
    name = format_of(path)
    if len(data) > 3000 and re.search(_HUGE, data):
        raise Unreadable("a number of more than 3000 digits: not a train config")
    if name == "toml":
        return parse_toml(data)
    read = _reader(name).parse
    document: ConfigDocument
    document = read(data, arguments) if name == "bash" else read(data)
    return document


def _reader(name: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(f"fp8tune.formats.{name}.document")
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        reason = "reading YAML needs PyYAML: pip install PyYAML"
        raise NoReader(reason) from None
