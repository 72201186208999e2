"""The size of the code, and which modules one whole replayed search enters.

Prints modules and lines of each part, as ``wc -l`` counts them, then runs
``fp8tune search --runner replay`` on a generated landscape in this process and prints
how many modules of ``fp8tune`` had a function called, report and plots included, and
which of them the options of the search passed through, in the order of the first call.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import fp8tune
from benchmarks.search.golden import replay_files
from fp8tune.search.options import SearchOptions

PACKAGE = Path(fp8tune.__file__).parent
ROOT = PACKAGE.parent
PARTS = {
    "fp8tune": ("fp8tune",),
    "search, trials and report": ("fp8tune/search", "fp8tune/trials", "fp8tune/report"),
    "the sampler": ("fp8tune/search/sampler",),
    "benchmarks": ("benchmarks",),
    "tests": ("tests",),
}


class Walk:
    """The modules that a program enters, and those that its options pass through."""

    def __init__(self) -> None:
        self.entered: set[str] = set()
        self.with_options: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, as ``sys.setprofile`` tells it."""
        code = frame.f_code
        path = code.co_filename
        function = code.co_flags & inspect.CO_NEWLOCALS
        if event != "call" or not function or not path.startswith(f"{PACKAGE}/"):
            return
        module = path.removeprefix(f"{PACKAGE}/")
        if not module.endswith(".py"):  # a template
            return
        self.entered.add(module)
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(isinstance(frame.f_locals.get(n), SearchOptions) for n in given):
            self.with_options[module] = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser("benchmarks.house", description=__doc__)
    parser.add_argument("--seed", type=int, default=9028, help="of the landscape")
    options = parser.parse_args(arguments)
    for name, folders in PARTS.items():
        files = [f for folder in folders for f in (ROOT / folder).rglob("*.py")]
        lines = sum(f.read_bytes().count(b"\n") for f in files)
        print(f"{name}: {len(files)} modules, {lines:,} lines")
    walk = Walk()
    print(f"a replay with {_replay(options.seed, walk)} trials:")
    print(f"  modules entered: {len(walk.entered)}")
    print(f"  modules that get the search's options: {', '.join(walk.with_options)}")
    return 0


def _replay(seed: int, walk: Walk) -> int:
    """Search a landscape under a profile; return the number of trials."""
    from fp8tune.program import main as program

    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        config, records = replay_files(seed)
        words = ["search", config, "--runner", "replay", "--records", records]
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            sys.setprofile(walk)
            try:
                program([*words, "--budget", "2h"])
            finally:
                sys.setprofile(None)
        (study,) = Path(".fp8tune").glob("*/trials.jsonl")
        return len(study.read_text().splitlines())


if __name__ == "__main__":
    sys.exit(main())
