"""Whether fp8tune refuses exactly the configs that the trainer itself refuses.

Each line of a file (``.jsonl`` or ``.jsonl.gz``) is one config that was given to the
trainer's own loader and validator: ``{"id", "world_size", "toml", "verdict",
"message"}`` with the verdict ``accept`` or ``reject``; ``id`` may be left out.
fp8tune rejects a config when a rule of the category ``rejected`` fires as an error.
Exit code 0: all agree; 1: some do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import table
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.toml.document import Unreadable

SHOWN = 70
"""Characters of a message in the table."""


class Case(NamedTuple):
    """One config and what the trainer said to it."""

    id: str
    world_size: int
    toml: str
    verdict: str
    message: str


class Outcome(NamedTuple):
    """One config and what fp8tune said to it."""

    case: Case
    verdict: str
    findings: list[Diagnostic]

    @property
    def agrees(self) -> bool:
        """Whether trainer and fp8tune say the same."""
        return self.verdict == self.case.verdict


def main(arguments: list[str] | None = None) -> int:
    """Judge every file and print agreement, disagreements and counts by rule."""
    parser = argparse.ArgumentParser(prog="verdicts", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    rules = Rules(read_builtin(), {})
    outcomes: list[Outcome] = []
    for path in options.files:
        judged = [judge(case, rules) for case in read(path)]
        print(f"{path.name}: {agreement(judged)}")
        outcomes += judged
    if len(options.files) > 1:
        print(f"together: {agreement(outcomes)}")
    wrong = [outcome for outcome in outcomes if not outcome.agrees]
    if wrong:
        print(f"\n{disagreements(wrong)}")
    print(f"\n{by_rule(outcomes)}")
    return int(bool(wrong))


def read(path: Path) -> Iterator[Case]:
    """The cases of one file."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    for number, line in enumerate(text.splitlines(), 1):
        said = {"id": f"line {number}", **json.loads(line)}
        yield Case(*(said[name] for name in Case._fields))


def judge(case: Case, rules: Rules) -> Outcome:
    """What fp8tune says to a config."""
    target = Target(world_size=case.world_size, world_size_origin="--world-size")
    try:
        report = check(f"{case.id}.toml", case.toml.encode(), rules, target)
    except Unreadable:
        return Outcome(case, "unreadable", [])
    if report.skipped:
        return Outcome(case, "skipped", [])
    refused = any(
        found.category == "rejected" and found.severity == "error"
        for found in report.diagnostics
    )
    return Outcome(case, "reject" if refused else "accept", report.diagnostics)


def agreement(outcomes: list[Outcome]) -> str:
    """``800 of 800``, and how many of them the trainer rejects."""
    same = sum(outcome.agrees for outcome in outcomes)
    rejected = sum(outcome.case.verdict == "reject" for outcome in outcomes)
    return f"{same} of {len(outcomes)} agree ({rejected} rejected by the trainer)"


def disagreements(wrong: Iterable[Outcome]) -> str:
    """A table of the configs judged otherwise."""
    rows = [
        (case.id, case.verdict, verdict, _short(case.message), _names(findings))
        for case, verdict, findings in wrong
    ]
    return table(rows, ("id", "trainer", "fp8tune", "trainer's message", "findings"))


def by_rule(outcomes: Iterable[Outcome]) -> str:
    """How many configs each rule fired on, by consequence."""
    fired = Counter(
        found
        for outcome in outcomes
        for found in {(d.category, d.rule) for d in outcome.findings}
    )
    order = sorted(fired.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    rows = [(rule, category, str(number)) for (category, rule), number in order]
    return table(rows, ("rule", "category", "configs"))


def _short(message: str) -> str:
    words = " ".join(message.split()).replace("|", "\\|")
    return words if len(words) <= SHOWN else f"{words[: SHOWN - 3]}..."


def _names(findings: list[Diagnostic]) -> str:
    return ", ".join(dict.fromkeys(d.rule for d in findings)) or "none"


if __name__ == "__main__":
    sys.exit(main())
