"""Options that several benchmarks have."""

from __future__ import annotations

import argparse
from pathlib import Path


def for_checkout(prog: str, about: str | None) -> argparse.ArgumentParser:
    """A parser of a benchmark that runs code of a trainer's checkout."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", type=Path, help="a checkout of the trainer")
    parser.add_argument("--commit", default="", help="commit of a checkout without git")
    return parser
