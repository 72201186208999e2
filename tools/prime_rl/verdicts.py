"""Whether fp8tune refuses exactly the configs that prime-rl itself refuses.

``TRAINER_PYTHON -m tools.prime_rl.verdicts CHECKOUT --count 600 --seed 1`` draws
configs (``generate.py``), lets prime-rl's config classes judge them (``judge.py``) in a
process of their own, and compares. The config files that the checkout ships are judged
too. ``--output FILE`` keeps the verdicts on drawn configs as JSON lines (gzip), and
``--verdicts FILE`` compares with those that were kept, without prime-rl. fp8tune
refuses a config when a rule of the category ``rejected`` fires as an error.

Which models have a renderer depends on the installed package ``renderers``: verdicts
that rest on it are counted apart. Exit code 0: all others agree; 1: some do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from tools.kempnerforge.verdicts import labelled, refusals
from tools.prime_rl.generate import configs
from tools.prime_rl.source import KINDS, RELEASE
from tools.schema_file import ROOT

ENVIRONMENT = ("typed renderer", "MODEL_RENDERER_MAP")
"""Words of errors that depend on what is installed."""

SHIPPED = "shipped "
"""Beginning of the id of a file that is prime-rl's own; those are not kept."""

OTHERS = ("infer/", "infer.toml", "orch.toml", "evals/")
"""Shipped files of other commands than those that train."""


def main(arguments: list[str] | None = None) -> int:
    """Compare verdicts; print each difference, and the agreement by kind of file."""
    parser = argparse.ArgumentParser(prog="prime_rl.verdicts", description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="a checkout of prime-rl")
    parser.add_argument("--count", type=int, default=600, help="configs per kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, help="verdicts that were kept")
    parser.add_argument("--output", type=Path, help="where to keep the verdicts")
    options = parser.parse_args(arguments)
    if options.verdicts:
        judged = list(labelled(options.verdicts))
    elif options.checkout:
        drawn = [*shipped(options.checkout), *configs(options.count, options.seed)]
        judged = list(by_trainer(options.checkout, drawn))
    else:
        parser.error("give CHECKOUT or --verdicts")
    if options.output:
        mine = (each for each in judged if not each["id"].startswith(SHIPPED))
        lines = "".join(f"{json.dumps(verdict)}\n" for verdict in mine)
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    return report(judged)


def shipped(checkout: Path) -> Iterator[dict[str, Any]]:
    """Yield the config files of a checkout for the commands that train."""
    for path in sorted(checkout.rglob("*.toml")):
        name = path.relative_to(checkout).as_posix()
        folder = name.partition("/")[0]
        if folder not in ("configs", "examples", "k8s"):
            continue
        if any(word in name for word in OTHERS):
            continue
        text = path.read_text(encoding="utf-8")
        yield {
            "kind": kind_of(tomllib.loads(text)),
            "id": f"{SHIPPED}{name}",
            "toml": text,
        }


def kind_of(values: dict[str, Any]) -> str:
    """Return the kind of a shipped file: told by tables that only one kind has."""
    if "orchestrator" in values:
        return "rl"
    data = values.get("data")
    fake = isinstance(data, dict) and "fake" in data
    return "rl_trainer" if fake or "rollout_transport" in values else "sft"


def by_trainer(checkout: Path, drawn: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield configs with prime-rl's verdicts."""
    lines = "".join(f"{json.dumps(config)}\n" for config in drawn)
    command = [sys.executable, "-m", "tools.prime_rl.judge", str(checkout)]
    done = subprocess.run(  # noqa: S603
        command, input=lines, capture_output=True, text=True, cwd=ROOT, check=False
    )
    if done.returncode:
        raise SystemExit(f"prime-rl: {done.stderr.splitlines()[-1]}")
    yield from map(json.loads, done.stdout.splitlines())


def report(judged: list[dict[str, Any]]) -> int:
    """Print differences and agreement; return how the process should exit."""
    rules = Rules(read_builtin(), {})
    wrong = 0
    for kind in KINDS:
        mine = [verdict for verdict in judged if verdict["kind"] == kind]
        clear = [verdict for verdict in mine if is_clear(verdict)]
        different = list(filter(None, (difference(rules, v) for v in clear)))
        refused = sum(bool(verdict["error"]) for verdict in clear)
        print("\n".join(different), end="\n" if different else "")
        print(
            f"prime-rl {RELEASE} {kind}: {len(clear) - len(different)} of {len(clear)} "
            f"agree ({refused} refused), {len(mine) - len(clear)} depend on packages"
        )
        wrong += len(different)
    return int(wrong > 0)


def is_clear(verdict: dict[str, Any]) -> bool:
    """Return whether a verdict rests on the config alone."""
    return not any(words in verdict["error"] for words in ENVIRONMENT)


def difference(rules: Rules, verdict: dict[str, Any]) -> str:
    """Return how fp8tune differs from prime-rl on one config; ``""`` if not."""
    version = f"prime_rl=={RELEASE}.{verdict['kind']}"
    report = check("x", verdict["toml"].encode(), rules, Target(), only=version)
    found = refusals(report)
    if bool(found) == bool(verdict["error"]):
        return ""
    ours = ", ".join(finding.rule for finding in found) or "accepts"
    return f"{verdict['id']}: trainer: {verdict['error'] or 'accepts'}; fp8tune: {ours}"


if __name__ == "__main__":
    sys.exit(main())
