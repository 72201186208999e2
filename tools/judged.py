"""Compare verdicts of a trainer's own code with those of lint, case by case.

A judge is a module of this package that reads cases as JSON lines and adds what the
trainer makes of each. A comparison gives for each case what differs, ``""`` if nothing
does, and ``None`` if the verdict rests on what is not installed, or not in the file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fp8tune.job import Job, Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Report
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from tools.kempnerforge.verdicts import refusals
from tools.schema_file import ROOT

Case = dict[str, Any]
Difference = Callable[[Rules, Case], str | None]
Draw = Callable[[int, int], Iterable[Case]]
Fp8 = Callable[[Case], tuple[bool | None, set[bool]]]
"""Whether lint says that FP8 is on (``None``: it leaves that open), and whether it is
in each model that the trainer builds.
"""


def main(
    name: str, checkouts: int, draw: Draw, difference: Difference, fp8: Fp8 | None
) -> int:
    """Compare new cases, or those of ``--verdicts``; print what differs, and how much.

    ``name`` is the trainer's folder of this package, ``checkouts`` how many its judge
    takes. Returns 1 if any case differs.
    """
    parser = argparse.ArgumentParser(prog=f"tools.{name}.verdicts")
    parser.add_argument("checkouts", type=Path, nargs="*", help="what the judge takes")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, help="cases that were kept")
    parser.add_argument("--output", type=Path, help="where to keep the cases")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args()
    if options.verdicts:
        cases = kept(options.verdicts)
    elif len(options.checkouts) == checkouts:
        drawn = draw(options.count, options.seed)
        cases = list(judged_by(name, options.checkouts, drawn))
    else:
        parser.error(f"give {checkouts} checkouts, or --verdicts")
    if options.output:
        lines = "".join(f"{json.dumps(case)}\n" for case in cases)
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    rules = Rules(read_builtin(), {})
    told = [difference(rules, case) for case in cases]
    known = [each for each in told if each is not None]
    different = list(filter(None, known))
    same, open_ = len(known) - len(different), len(told) - len(known)
    figures = f"{same} of {len(known)} agree, {open_} are not comparable"
    if fp8:
        claims = fp8_claims(cases, fp8)
        wrong = wrong_claims(claims)
        different += wrong
        on = sum(ours for _, ours, _ in claims)
        true = len(claims) - len(wrong)
        figures += f"; FP8 on or off: {true} of {len(claims)} agree ({on} on)"
    print("\n".join((*different, figures)))
    if options.record:
        record(name, options.seed, figures)
    return int(bool(different))


def fp8_on(job: Job) -> bool | None:
    """Return whether a job says that FP8 is on; ``None`` if it leaves that open."""
    precision = job.find("precision")
    return None if precision is None else bool(precision == "fp8")


def fp8_claims(cases: Iterable[Case], fp8: Fp8) -> list[tuple[str, bool, set[bool]]]:
    """Return the cases in which lint says whether FP8 is on and a model is built."""
    both = ((case["id"], *fp8(case)) for case in cases)
    return [
        (name, ours, theirs)
        for name, ours, theirs in both
        if ours is not None and theirs
    ]


def wrong_claims(claims: Iterable[tuple[str, bool, set[bool]]]) -> list[str]:
    """Return what lint says wrongly of FP8."""
    return [
        f"{name}: FP8 in any layer: {theirs}; fp8tune: {ours}"
        for name, ours, theirs in claims
        if theirs != {ours}
    ]


def record(name: str, seed: int, figures: str) -> None:
    """Write a seed's figures below the command that printed them."""
    page = ROOT / "benchmarks" / "results" / "nvidia_verdicts.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    command = f"$ python -m tools.{name}.verdicts "
    start = [line.startswith(command) for line in lines].index(True) + 1
    end = start
    while lines[end].startswith("seed "):
        end += 1
    new = f"seed {seed}: {figures}"
    block = [
        new if line.startswith(f"seed {seed}:") else line for line in lines[start:end]
    ]
    lines[start:end] = block if new in block else [*block, new]
    page.write_text("\n".join((*lines, "")), encoding="utf-8")


def kept(path: Path) -> list[Case]:
    """Return the cases of an earlier run."""
    return list(map(json.loads, gzip.decompress(path.read_bytes()).splitlines()))


def judged_by(
    name: str, checkouts: Iterable[Path], cases: Iterable[Case]
) -> Iterator[Case]:
    """Yield cases with what the trainer makes of them."""
    judge = f"tools.{name}.judge"
    command = [sys.executable, "-m", judge, *map(str, checkouts)]
    done = subprocess.run(  # noqa: S603
        command,
        input="".join(f"{json.dumps(case)}\n" for case in cases),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{judge}: {done.stderr.splitlines()[-1]}")
    yield from map(json.loads, done.stdout.splitlines())


def report_of(
    rules: Rules, name: str, text: str, trainer: str, world_size: int = 0
) -> Report:
    """Return what lint says of a text, for a number of GPUs."""
    origin = "--world-size" * bool(world_size)
    target = Target(world_size=world_size, world_size_origin=origin)
    return check(name, text.encode(), rules, target, only=trainer)


def refused(case: Case, report: Report, error: str) -> str:
    """Return how lint and the trainer differ in refusing; empty if they agree."""
    found = refusals(report)
    if bool(found) == bool(error):
        return ""
    ours = ", ".join(finding.rule for finding in found) or "accepts"
    return f"{case['id']}: trainer: {error or 'accepts'}; fp8tune: {ours}"
