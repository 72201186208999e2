"""Options that several benchmarks have."""

from __future__ import annotations

import argparse
from pathlib import Path


def for_checkout(
    prog: str, about: str | None, *, trains: bool = False
) -> argparse.ArgumentParser:
    """Return the parser of a benchmark that runs code of a trainer's checkout.

    With ``trains`` it runs the training script, each time for at most ``--timeout``.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kind = _with_script if trains else Path
    parser.add_argument("checkout", type=kind, help="a checkout of the trainer")
    parser.add_argument("--commit", default="", help="commit of a checkout without git")
    if trains:
        parser.add_argument(
            "--timeout", type=float, default=240, metavar="S", help="seconds of one run"
        )
    return parser


def _with_script(path: str) -> Path:
    if not (Path(path) / "scripts" / "train.py").is_file():
        raise argparse.ArgumentTypeError(f"{path} has no scripts/train.py")
    return Path(path)
