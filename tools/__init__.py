"""Makers of what fp8tune knows of trainers: schemas, and verdicts that tests compare.

``tools/NAME/schema.py`` writes ``fp8tune/trainers/NAME/schema.toml``.
"""
