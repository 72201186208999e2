"""Put the built-in rules and schemas into a wheel as one compiled module.

Without it lint would parse their TOML at every start. The TOML files stay the only
source: the module is written when a wheel is built and is never in a checkout.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class IndexHook(BuildHookInterface):
    """Adds ``fp8tune/_index.py`` to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the module, unless the checkout itself is installed."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from fp8tune.lint.index import source
        finally:
            sys.path.remove(self.root)
        self._folder = tempfile.TemporaryDirectory()  # for as long as the hook lives
        path = os.path.join(self._folder.name, "_index.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source())
        build_data["force_include"][path] = "fp8tune/_index.py"
