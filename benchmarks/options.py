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


def for_worlds(prog: str, about: str | None, first: int) -> argparse.ArgumentParser:
    """A parser of a benchmark of generated worlds, from seed ``first`` on."""
    parser = argparse.ArgumentParser(prog=f"benchmarks.{prog}", description=about)
    parser.add_argument("--searches", type=int, default=1000, help="per world")
    parser.add_argument("--first", type=int, default=first, help="the first seed")
    parser.add_argument("--record", action="store_true", help="write the results")
    return parser
