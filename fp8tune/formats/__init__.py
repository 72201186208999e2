"""The formats of configs: bytes to a document. Today there is TOML."""

from __future__ import annotations

from fp8tune.formats.document import ConfigDocument
from fp8tune.formats.toml.document import MAX_BYTES as MAX_BYTES
from fp8tune.formats.toml.document import parse as parse_toml


def parse(data: bytes) -> ConfigDocument:
    """Read the bytes of a config; raises ``InvalidText`` and ``Unreadable``."""
    return parse_toml(data)
