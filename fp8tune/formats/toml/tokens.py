"""Patterns of TOML's tokens, for text whose validity ``tomllib`` has decided."""

from __future__ import annotations

LONG_STRING = (
    r"""\"{3}(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}|'{3}(?:[^']++|'{1,2}(?!'))*+'{3,5}"""
)
"""A string over several lines; needs ``re.DOTALL``."""

STRING = r""""(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+'"""
"""A string on one line, also as a quoted key."""

COMMENT = r"#[^\n]*+"

BARE_KEY = r"[A-Za-z0-9_-]++"
