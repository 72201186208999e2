"""TOML text to values and exact source positions."""
