"""YAML text to values, exact source positions, and edited text."""
