"""Whether fp8tune refuses exactly the configs that DeepSpeed itself refuses.

``python -m tools.deepspeed.verdicts --python TRAINER_PYTHON --count 600 --seed 1``
draws configs (``generate.py``), lets ``DeepSpeedConfig`` read them (``judge.py``, in a
process of a Python that has deepspeed), and compares. ``--output FILE`` keeps the
verdicts (gzip), and ``--verdicts FILE`` compares with kept ones. fp8tune refuses a
config when a rule of the category ``rejected`` fires as an error. Configs with
``"auto"`` among the batch sizes are left out: the Trainer fills those in.

Exit code 0: 99 % or more agree; 1: fewer do.
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

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from tools.deepspeed.generate import configs
from tools.kempnerforge.verdicts import labelled, refusals
from tools.schema_file import ROOT

SHARE = 0.99
"""Share of configs that must agree."""


def main() -> int:
    """Compare verdicts; print each difference, and the agreement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="has deepspeed")
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, help="verdicts that were kept")
    parser.add_argument("--output", type=Path, help="where to keep the verdicts")
    options = parser.parse_args()
    if options.verdicts:
        judged = list(labelled(options.verdicts))
    else:
        drawn = list(configs(options.count, options.seed))
        judged = list(by_trainer(options.python, drawn))
    if options.output:
        lines = "".join(f"{json.dumps(verdict)}\n" for verdict in judged)
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    rules = Rules(read_builtin(), {})
    different = [text for text in (difference(rules, v) for v in judged) if text]
    refused = sum(bool(verdict["error"]) for verdict in judged)
    print("\n".join(different), end="\n" if different else "")
    agreeing = len(judged) - len(different)
    releases = ", ".join(sorted({verdict["release"] for verdict in judged}))
    told = f"({refused} refused by DeepSpeed {releases})"
    print(f"{agreeing} of {len(judged)} agree {told}")
    return int(agreeing < SHARE * len(judged))


def by_trainer(python: str, drawn: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield configs with DeepSpeed's verdicts."""
    lines = "".join(f"{json.dumps(config)}\n" for config in drawn)
    command = [python, "-m", "tools.deepspeed.judge"]
    asked = [python, "-c", "import deepspeed; print(deepspeed.__version__)"]
    release = subprocess.run(  # noqa: S603
        asked, capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout.split()[-1]
    done = subprocess.run(  # noqa: S603
        command, input=lines, capture_output=True, text=True, cwd=ROOT, check=False
    )
    if done.returncode:
        raise SystemExit(f"deepspeed: {done.stderr.splitlines()[-1]}")
    found = [line for line in done.stdout.splitlines() if line.startswith("{")]
    yield from ({"release": release} | json.loads(line) for line in found)


def difference(rules: Rules, verdict: dict[str, Any]) -> str:
    """Return how fp8tune differs from DeepSpeed on one config; ``""`` if not."""
    target = Target(world_size=verdict["world"])
    data = verdict["json"].encode()
    only = f"deepspeed=={verdict['release']}"
    found = refusals(check("x.json", data, rules, target, only=only))
    if bool(found) == bool(verdict["error"]):
        return ""
    ours = ", ".join(f"{one.rule} ({one.message})" for one in found) or "accepts"
    theirs = verdict["error"] or "accepts"
    return f"{verdict['id']}: DeepSpeed: {theirs}; fp8tune: {ours}\n  {verdict['json']}"


if __name__ == "__main__":
    sys.exit(main())
