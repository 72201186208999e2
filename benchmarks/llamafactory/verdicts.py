"""Whether fp8tune refuses what LLaMA-Factory refuses, and knows where FP8 is on.

``python -m benchmarks.llamafactory.verdicts 0.9.5 PYTHON --count 400 --seed 1`` draws
configs (``generate.py``), lets LLaMA-Factory itself judge them with PYTHON, which has it
(``judge.py``), and compares: rejected or not, and FP8 modules or not. ``--output FILE``
keeps the verdicts as JSON lines (gzip), ``--verdicts FILE`` compares with those that were
kept. fp8tune refuses a config when a rule of the category ``rejected`` fires as an error.

Verdicts of keys that only some releases of transformers have are counted apart, because
no config says which is installed. Exit code 0: all others agree; 1: some do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.llamafactory.generate import configs
from benchmarks.paths import ROOT
from benchmarks.verdicts import labelled, refusals
from fp8tune.formats import parse
from fp8tune.job import Target, Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.trainer import trainer

RELEASES = ("4", "5")


def main(arguments: list[str] | None = None) -> int:
    """Compare verdicts; print each difference, and the agreement."""
    parser = argparse.ArgumentParser(prog="llamafactory.verdicts", description=__doc__)
    parser.add_argument("version", nargs="?", help="release of LLaMA-Factory")
    parser.add_argument("python", nargs="?", help="a Python that has it")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, help="verdicts that were kept")
    parser.add_argument("--output", type=Path, help="where to keep the verdicts")
    options = parser.parse_args(arguments)
    if options.verdicts:
        judged = list(labelled(options.verdicts))
    elif options.version and options.python:
        drawn = configs(options.version, options.count, options.seed)
        judged = list(by_trainer(options.python, options.version, list(drawn)))
    else:
        parser.error("give VERSION and PYTHON, or --verdicts")
    if options.output:
        lines = "".join(f"{json.dumps(verdict)}\n" for verdict in judged)
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    return report(judged)


def by_trainer(
    python: str, version: str, drawn: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield configs with the verdicts of LLaMA-Factory, and its transformers."""
    lines = "".join(f"{json.dumps(config)}\n" for config in drawn)
    done = subprocess.run(  # noqa: S603
        [python, "-m", "benchmarks.llamafactory.judge"],
        **{"input": lines, "capture_output": True, "text": True},
        **{"cwd": ROOT, "check": False},
    )
    if done.returncode:
        raise SystemExit(f"LLaMA-Factory: {done.stderr.splitlines()[-1]}")
    for line in done.stdout.splitlines():
        yield json.loads(line) | {"version": version}


def report(judged: list[dict[str, Any]]) -> int:
    """Print differences and agreement; return how the process should exit."""
    rules = Rules(read_builtin(), {})
    wrong = 0
    groups = sorted({(each["version"], each["transformers"]) for each in judged})
    for group in groups:
        mine = [v for v in judged if (v["version"], v["transformers"]) == group]
        clear = [verdict for verdict in mine if is_clear(verdict)]
        different = list(filter(None, (difference(rules, v) for v in clear)))
        wrong += len(different)
        refused = sum(bool(verdict["error"]) for verdict in clear)
        print("\n".join(different), end="\n" if different else "")
        print(
            f"LLaMA-Factory {group[0]}, transformers {group[1]}: "
            f"{len(clear) - len(different)} of {len(clear)} agree ({refused} refused), "
            f"{len(mine) - len(clear)} depend on transformers"
        )
        claims = [(v, claimed(v)) for v in clear if not v["error"]]
        known = [(v, on) for v, on in claims if on is not None and v["fp8"] is not None]
        lies = [v for v, on in known if on != (v["fp8"] > 0)]
        print("\n".join(f"{v['id']}: {v['fp8']} FP8 modules" for v in lies))
        print(
            f"  FP8 on or off: {len(known) - len(lies)} of {len(known)} agree "
            f"({sum(on for _, on in known)} on), {len(claims) - len(known)} not known"
        )
        wrong += len(lies)
    return int(wrong > 0)


def is_clear(verdict: dict[str, Any]) -> bool:
    """Return whether a verdict does not rest on the release of transformers."""
    unknown = "are not used by the HfArgumentParser" in verdict["error"]
    version = f"llamafactory=={verdict['version']}"
    keys = trainer(version).schema.top_keys
    values = parse(verdict["yaml"].encode(), "x.yaml").values
    return not (unknown and all(name in keys for name in values))


def difference(rules: Rules, verdict: dict[str, Any]) -> str:
    """Return how fp8tune differs from the trainer on one config; ``""`` if not."""
    version = f"llamafactory=={verdict['version']}"
    text = verdict["yaml"].encode()
    found = refusals(check("x.yaml", text, rules, Target(), only=version))
    refused = verdict["error"] and not verdict["error"].startswith("set-up ")
    if bool(found) == bool(refused):
        return ""
    ours = ", ".join(finding.rule for finding in found) or "accepts"
    return f"{verdict['id']}: trainer: {verdict['error'] or 'accepts'}; fp8tune: {ours}"


def claimed(verdict: dict[str, Any]) -> bool | None:
    """Return whether fp8tune says that FP8 is on; ``None`` where it does not know."""
    known = trainer(f"llamafactory=={verdict['version']}")
    values = parse(verdict["yaml"].encode(), "x.yaml").values
    loaded = known.load(values)
    loaded.values["transformers"] = int(verdict["transformers"].partition(".")[0])
    try:
        return bool(known.job(loaded, Target())["fp8_on"])
    except Unknown:
        return None


if __name__ == "__main__":
    sys.exit(main())
