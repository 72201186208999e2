"""Let a trainer judge generated configs, and compare its verdicts with those of lint.

``python -m tools.verdicts NAME [ARGUMENTS]`` draws configs from those that were judged
before (``tools/generate.py``) and gives them to ``tools/NAME/judge.py``, which runs the
trainer's own code with ARGUMENTS (checkouts, mostly) in a Python that has what it
needs. ``--output FILE`` keeps the verdicts: ``tests/data/NAME_verdicts.jsonl.gz`` is
what the tests compare, and what is drawn from, unless ``--recorded FILE`` is given, as
for a new trainer: a few cases by hand, one JSON line each. ``--verdicts FILE`` compares
kept ones. Exit code 0: all agree; 1: some do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fp8tune.trainers.packages import assuming
from tests.support.verdicts import (
    COMPARISONS,
    Case,
    Compared,
    cases,
    corpus,
)
from tools.generate import configs, overridden
from tools.schema_file import ROOT

DRAWS = ("configs", "overridden")
"""Configs, or those of KempnerForge with arguments."""


def main(arguments: list[str] | None = None) -> int:
    """Draw, judge, keep and compare; print each difference, and the agreement."""
    parser = argparse.ArgumentParser(prog="tools.verdicts", description=__doc__)
    parser.add_argument("name", choices=COMPARISONS, help="the trainer")
    parser.add_argument("arguments", nargs="*", help="what its judge takes")
    parser.add_argument("--python", default=sys.executable, help="has the trainer")
    parser.add_argument("--release", default="", help="draw for it; judge it")
    parser.add_argument("--recorded", type=Path, help="cases to draw from")
    parser.add_argument("--draw", choices=DRAWS, default="configs", help="what to draw")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, help="verdicts that were kept")
    parser.add_argument("--output", type=Path, help="where to add the verdicts")
    parser.add_argument("--installed", action="append", default=[], metavar="X=RELEASE")
    options = parser.parse_args(arguments)
    if options.verdicts:
        judged = cases(options.verdicts)
    else:
        recorded = cases(options.recorded or corpus(options.name))
        drawn = configs(
            options.name, recorded, options.count, options.seed, options.release
        )
        if options.draw == "overridden":
            drawn = overridden(recorded, options.count, options.seed)
        command = [options.python, "-m", f"tools.{options.name}.judge"]
        judged = list(judged_by([*command, *options.arguments], drawn))
    if options.output:
        kept = cases(options.output) if options.output.exists() else []
        lines = "".join(f"{json.dumps(case)}\n" for case in (*kept, *judged))
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    with assuming(dict(each.split("=") for each in options.installed)):
        compared = Compared(options.name, judged)
    print("\n".join((*compared.different, *compared.summary())))
    return int(bool(compared.different))


def judged_by(command: list[str], drawn: Iterable[Case]) -> Iterator[Case]:
    """Yield cases with what the trainer makes of them."""
    done = subprocess.run(  # noqa: S603
        command,
        input="".join(f"{json.dumps(case)}\n" for case in drawn),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command[2]}: {done.stderr.splitlines()[-1]}")
    lines = (line for line in done.stdout.splitlines() if line.startswith("{"))
    yield from map(json.loads, lines)


if __name__ == "__main__":
    sys.exit(main())
