"""Put the built-in rules and schemas into a wheel as compiled modules.

Without them lint would parse their TOML at every start. The TOML files stay the only
source: the modules are written when a wheel is built and are never in a checkout.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class IndexHook(BuildHookInterface):
    """Adds the modules of rules and schemas, ``fp8tune/_index*.py``, to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the modules, unless the checkout itself is installed."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from fp8tune.lint.index import sources

            modules = list(sources())
        finally:
            sys.path.remove(self.root)
        self._folder = tempfile.TemporaryDirectory()  # for as long as the hook lives
        for module, text in modules:
            name = f"{module.rpartition('.')[2]}.py"
            path = os.path.join(self._folder.name, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            build_data["force_include"][path] = f"fp8tune/{name}"
