"""TOML text to values and exact source positions."""

Path = tuple[str | int, ...]
"""Keys and array indices from the root, e.g. ``("data", "datasets", 0, "path")``."""

Span = tuple[int, int]
"""Start and end offset in characters, the end exclusive."""
