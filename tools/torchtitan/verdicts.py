"""Whether fp8tune refuses exactly the configs that torchtitan itself refuses.

``TRAINER_PYTHON -m tools.torchtitan.verdicts WHEELS --count 450 --seed 1`` draws
configs (``generate.py``) for each release, lets the release judge them (``judge.py``)
and compares. ``--output FILE`` keeps the verdicts as JSON lines (gzip), and
``--verdicts FILE`` compares with those that were kept, without the trainer. fp8tune
refuses a config when a rule of the category ``rejected`` fires as an error.

Verdicts that rest on a missing package or on the torchao at hand say nothing about the
config; they are counted apart. Exit code 0: all others agree; 1: some do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from tools.kempnerforge.verdicts import refusals
from tools.schema_file import ROOT
from tools.torchtitan.generate import configs
from tools.torchtitan.wheels import VERSIONS

ENVIRONMENT = ("ImportError", "ModuleNotFoundError", "no answer")
"""Errors that depend on what is installed."""


def main(arguments: list[str] | None = None) -> int:
    """Compare verdicts; print each difference, and the agreement by release."""
    parser = argparse.ArgumentParser(prog="torchtitan.verdicts", description=__doc__)
    parser.add_argument("wheels", type=Path, nargs="?", help="a folder with the wheels")
    parser.add_argument("--count", type=int, default=450, help="configs per release")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, help="verdicts that were kept")
    parser.add_argument("--output", type=Path, help="where to keep the verdicts")
    options = parser.parse_args(arguments)
    if options.verdicts:
        judged = kept(options.verdicts)
    elif options.wheels:
        judged = list(by_trainer(options.wheels, options.count, options.seed))
    else:
        parser.error("give WHEELS or --verdicts")
    if options.output:
        lines = "".join(f"{json.dumps(verdict)}\n" for verdict in judged)
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    return report(judged)


def by_trainer(wheels: Path, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield configs with the verdicts of their releases."""
    for version in VERSIONS:
        yield from judged_by(wheels, version, configs(version, count, seed))


def judged_by(
    wheels: Path, version: str, drawn: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield configs with the verdict of one release."""
    with tempfile.TemporaryDirectory() as site:
        name = f"torchtitan-{version}-py3-none-any.whl"
        zipfile.ZipFile(wheels / name).extractall(site)
        command = [sys.executable, "-m", "tools.torchtitan.judge", site]
        done = subprocess.run(  # noqa: S603
            command,
            input="".join(f"{json.dumps(config)}\n" for config in drawn),
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        if done.returncode:
            reason = done.stderr.splitlines()[-1]
            raise SystemExit(f"torchtitan {version}: {reason}")
        yield from map(json.loads, done.stdout.splitlines())


def kept(path: Path) -> list[dict[str, Any]]:
    """Return verdicts of an earlier run."""
    return list(map(json.loads, gzip.decompress(path.read_bytes()).splitlines()))


def report(judged: list[dict[str, Any]]) -> int:
    """Print differences and agreement; return how the process should exit."""
    rules = Rules(read_builtin(), {})
    wrong = 0
    for version in VERSIONS:
        mine = [verdict for verdict in judged if verdict["version"] == version]
        clear = [v for v in mine if not v["error"].startswith(ENVIRONMENT)]
        different = list(filter(None, (difference(rules, v) for v in clear)))
        refused = sum(bool(verdict["error"]) for verdict in clear)
        print("\n".join(different), end="\n" if different else "")
        print(
            f"torchtitan {version}: {len(clear) - len(different)} of {len(clear)} agree"
            f" ({refused} refused), {len(mine) - len(clear)} depend on packages"
        )
        wrong += len(different)
    return int(wrong > 0)


def difference(rules: Rules, verdict: dict[str, Any]) -> str:
    """Return how fp8tune differs from the trainer on one config; ``""`` if not."""
    target = Target(world_size=verdict["world_size"], world_size_origin="--world-size")
    data = verdict["toml"].encode()
    found = refusals(
        check("x", data, rules, target, only=f"torchtitan=={verdict['version']}")
    )
    if bool(found) == bool(verdict["error"]):
        return ""
    ours = ", ".join(finding.rule for finding in found) or "accepts"
    theirs = (
        f"{verdict['stage']}: {verdict['error']}" if verdict["error"] else "accepts"
    )
    return f"{verdict['id']}: trainer: {theirs}; fp8tune: {ours}"


if __name__ == "__main__":
    sys.exit(main())
