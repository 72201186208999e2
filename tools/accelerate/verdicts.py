"""Whether fp8tune says of launch files what Accelerate, transformers and TRL do.

``python -m tools.accelerate.verdicts --python TRAINER_PYTHON`` draws launch files
(``generate.py``), lets the release of accelerate that TRAINER_PYTHON has judge them
(``judge.py``), and compares: fp8tune refuses a file when a rule of the category
``rejected`` fires as an error. ``--fp8`` draws launch files with training arguments
instead, and compares what fp8tune says of FP8 with what the set-up of a script on a
tiny model ends with: FP8 linears or none, or an error. There fp8tune may say nothing;
that is counted apart. Of Transformer Engine there is a stand-in, MS-AMP is not
installed.

``--installed torchao=0.18.0`` stands for what fp8tune reads with ``--installed``.
``--output FILE`` adds the verdicts to a file of JSON lines (gzip), and ``--verdicts
FILE`` compares with those that were kept. Exit code 0: all agree; 1: some do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.packages import add_releases, assuming
from fp8tune.trainers.trainer import trainer
from tools.accelerate import generate
from tools.kempnerforge.verdicts import labelled, refusals

DEVICE = ("is not supported on your device", "No module named", "timeout")
"""Words of errors that a busy CPU without these packages ends with, not the config."""

LATER = ("fp8-weights-not-saved", "float8-with-any-length", "te-with-any-length")
"""Rules on what ends a run behind its set-up."""

JUDGE = Path(__file__).with_name("judge.py")

ASK = "import accelerate; print(accelerate.__version__)"


def main(arguments: list[str] | None = None) -> int:
    """Compare verdicts; print each difference, and the agreement of each release."""
    parser = argparse.ArgumentParser(prog="accelerate.verdicts", description=__doc__)
    parser.add_argument("--python", help="a Python with accelerate and torchao")
    parser.add_argument("--fp8", action="store_true", help="compare what FP8 is")
    parser.add_argument("--count", type=int, default=400, help="configs to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, help="verdicts that were kept")
    parser.add_argument("--output", type=Path, help="where to add the verdicts")
    parser.add_argument("--installed", action="append", default=[], metavar="X=RELEASE")
    options = parser.parse_args(arguments)
    if options.verdicts:
        judged = list(labelled(options.verdicts))
    elif options.python:
        draw = generate.fp8_configs if options.fp8 else generate.configs
        judged = list(by_trainer(options.python, draw(options.count, options.seed)))
    else:
        parser.error("give --python or --verdicts")
    if options.output:
        kept = list(labelled(options.output)) if options.output.exists() else []
        lines = "".join(f"{json.dumps(verdict)}\n" for verdict in (*kept, *judged))
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    with assuming(dict(each.split("=") for each in options.installed)):
        return report(judged)


def by_trainer(
    python: str, drawn: Iterator[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield configs with the verdicts of the release that a Python has."""
    run = [python, "-c", ASK]
    asked = subprocess.run(run, capture_output=True, text=True, check=True)  # noqa: S603
    release = asked.stdout.strip()
    lines = "".join(f"{json.dumps(config)}\n" for config in drawn)
    done = subprocess.run(  # noqa: S603
        [python, str(JUDGE)], input=lines, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"accelerate: {done.stderr.splitlines()[-1]}")
    for verdict in map(json.loads, done.stdout.splitlines()):
        if not any(words in verdict["failure"] for words in DEVICE):
            yield {"release": release} | verdict


def report(judged: list[dict[str, Any]]) -> int:
    """Print differences and agreement; return how the process should exit."""
    rules = Rules(read_builtin(), {})
    wrong = 0
    kinds = sorted({kind_of(verdict) for verdict in judged})
    for release, of_fp8 in kinds:
        mine = [v for v in judged if kind_of(v) == (release, of_fp8)]
        counts: Counter[str] = Counter()
        for verdict in mine:
            theirs, ours, why = outcomes(rules, verdict)
            counts[theirs] += 1
            counts["not said"] += not ours
            if ours and ours != theirs:
                wrong += 1
                counts["different"] += 1
                print(f"{verdict['id']}: trainer: {theirs}; fp8tune: {ours} ({why})")
        said = len(mine) - counts.pop("not said")
        agree = said - counts.pop("different", 0)
        parts = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        rest = f", of {len(mine) - said} nothing is said" if of_fp8 else ""
        what = "FP8" if of_fp8 else "launcher"
        print(f"accelerate {release} {what}: {agree} of {said} agree ({parts}){rest}")
    return int(wrong > 0)


def kind_of(verdict: dict[str, Any]) -> tuple[str, bool]:
    """Return the release of a verdict, and whether it is about FP8."""
    return verdict["release"], bool(verdict.get("program"))


def outcomes(rules: Rules, verdict: dict[str, Any]) -> tuple[str, str, str]:
    """Return what happens, what fp8tune says (``""`` if nothing), and the reason."""
    launch = verdict["text"]
    training = verdict.get("training")
    joined = launch + (f"training: {json.dumps(training)}\n" if training else "")
    if (file := verdict.get("deepspeed")) is not None:
        joined += f"deepspeed: {json.dumps(file)}\n"
    name = f"accelerate=={verdict['release']}"
    command = ("--quiet",)  # changes nothing, so that the whole command is known
    found = check(
        "x.yaml", joined.encode(), rules, Target(), only=name, overrides=command
    )
    refused = refusals(found)
    if not verdict.get("program"):
        theirs = "refused" if verdict["error"] else "accepted"
        ours = "refused" if refused else "accepted"
        why = verdict["error"] or ", ".join(each.rule for each in refused)
        return theirs, ours, why
    theirs = "on" if verdict["linears"] else "off"
    theirs = "fails" if verdict["error"] or verdict["failure"] else theirs
    crashes = [
        each
        for each in (found.diagnostics if found else [])
        if (each.category, each.severity) == ("crash", "error")
        and each.rule not in LATER
    ]
    failing = [each.rule for each in (*refused, *crashes)]
    if failing:
        return theirs, "fails", f"{failing}; {verdict['error']}{verdict['failure']}"
    known = trainer(name)
    loaded = known.load(parse(joined.encode(), "x.yaml").values)
    add_releases(loaded, known, "x.yaml")
    precision = known.job(loaded, Target()).find("precision")
    ours = "" if precision is None else "on" if precision == "fp8" else "off"
    return theirs, ours, f"{precision}; {verdict['error']}{verdict['failure']}"


if __name__ == "__main__":
    sys.exit(main())
