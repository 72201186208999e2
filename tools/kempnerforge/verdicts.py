"""Whether fp8tune refuses exactly the configs that the trainer itself refuses.

Each line of a file (``.jsonl`` or ``.jsonl.gz``) is one config that was given to the
trainer's own loader and validator: ``{"world_size", "toml", "verdict", "message"}``
with the verdict ``accept`` or ``reject``. fp8tune refuses a config when a rule of the
category ``rejected`` fires as an error. Exit code 0: all agree; 1: some do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules

Look = Callable[[bytes, int], Report]


def look_with_all_rules() -> Look:
    """Return a check of a config for a number of GPUs; 0 means the header says it."""
    rules = Rules(read_builtin(), {})

    def look(data: bytes, world_size: int) -> Report:
        target = Target(world_size=world_size, world_size_origin="--world-size")
        asked = target if world_size else Target()
        return check("x", data, rules, asked, only="kempnerforge")

    return look


def refusals(report: Report | None) -> list[Diagnostic]:
    """Return the findings for which the trainer would refuse the config."""
    found = report.diagnostics if report else []
    return [d for d in found if (d.category, d.severity) == ("rejected", "error")]


def labelled(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the labelled configs of a file."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    yield from map(json.loads, text.splitlines())


def main(arguments: list[str] | None = None) -> int:
    """Judge every file; print agreement and disagreements."""
    parser = argparse.ArgumentParser(
        prog="tools.kempnerforge.verdicts", description=__doc__
    )
    parser.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    look = look_with_all_rules()
    wrong = 0
    for path in options.files:
        cases = list(labelled(path))
        different = []
        for number, case in enumerate(cases, 1):
            found = refusals(look(case["toml"].encode(), case["world_size"]))
            if bool(found) != (case["verdict"] == "reject"):
                ours = ", ".join(finding.rule for finding in found) or "accepts"
                theirs = case["message"] or "accepts"
                different.append(f"line {number}: trainer: {theirs}; fp8tune: {ours}")
        rejected = sum(case["verdict"] == "reject" for case in cases)
        same = len(cases) - len(different)
        said = f"{same} of {len(cases)} agree ({rejected} rejected by the trainer)"
        print("\n".join((f"{path.name}: {said}", *different)))
        wrong += len(different)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
