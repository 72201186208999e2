"""Whether fp8tune refuses what a YAML trainer refuses, and knows where FP8 is on.

Shared by ``tools/llamafactory/verdicts.py`` and
``tools/axolotl/verdicts.py``. Each trainer has ``generate.py``, which draws
configs, and ``judge.py``, which runs in a Python of the trainer: a verdict has
``error``, ``fp8`` (the number of FP8 modules after the trainer's own set-up), and the
versions that were installed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.formats import parse
from fp8tune.job import Job, Target, Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.trainer import trainer
from tools.kempnerforge.verdicts import labelled, refusals
from tools.schema_file import ROOT

Verdict = dict[str, Any]

SET_UP = "set-up "
"""Beginning of errors that end the set-up on this machine, after the config is
accepted.
"""


class Compared(NamedTuple):
    """A trainer that is compared.

    ``configs`` draws configs of a version; ``depends`` says whether a verdict rests on
    what is installed; ``values`` are what fp8tune may know beside the config.
    """

    name: str
    configs: Callable[[str, int, int], Iterator[Verdict]]
    depends: Callable[[Verdict], bool]
    values: Callable[[Verdict], dict[str, Any]]


def main(of: Compared, arguments: list[str] | None, description: str | None) -> int:
    """Compare verdicts; print each difference, and the agreement."""
    parser = argparse.ArgumentParser(
        prog=f"{of.name}.verdicts", description=description
    )
    parser.add_argument("version", nargs="?", help="release of the trainer")
    parser.add_argument("python", nargs="?", help="a Python that has it")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, help="verdicts that were kept")
    parser.add_argument("--output", type=Path, help="where to keep the verdicts")
    options = parser.parse_args(arguments)
    if options.verdicts:
        judged = list(labelled(options.verdicts))
    elif options.version and options.python:
        drawn = of.configs(options.version, options.count, options.seed)
        judged = list(by_trainer(of, options.python, options.version, drawn))
    else:
        parser.error("give VERSION and PYTHON, or --verdicts")
    if options.output:
        lines = "".join(f"{json.dumps(verdict)}\n" for verdict in judged)
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    return report(of, judged)


def by_trainer(
    of: Compared, python: str, version: str, drawn: Iterable[Verdict]
) -> Iterator[Verdict]:
    """Yield configs with the trainer's verdicts."""
    lines = "".join(f"{json.dumps(config)}\n" for config in drawn)
    done = subprocess.run(  # noqa: S603
        [python, "-m", f"tools.{of.name}.judge"],
        input=lines,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{of.name}: {done.stderr.splitlines()[-1]}")
    for line in done.stdout.splitlines():
        yield json.loads(line) | {"version": version}


def report(of: Compared, judged: list[Verdict]) -> int:
    """Print differences and agreement; return how the process should exit."""
    rules = Rules(read_builtin(), {})
    wrong = 0
    for group in sorted({_installed(verdict) for verdict in judged}):
        mine = [verdict for verdict in judged if _installed(verdict) == group]
        clear = [verdict for verdict in mine if not of.depends(verdict)]
        different = list(filter(None, (difference(of, rules, v) for v in clear)))
        refused = sum(map(is_refused, clear))
        known = [(v, on) for v in clear if (on := claimed(of, v)) is not None]
        lies = [
            f"{v['id']}: {v['fp8']} FP8 modules"
            for v, on in known
            if on != (v["fp8"] > 0)
        ]
        print("\n".join([*different, *lies]), end="\n" if different or lies else "")
        print(f"{of.name} {' with transformers '.join(filter(None, group))}:")
        print(
            f"  {len(clear) - len(different)} of {len(clear)} agree"
            f" ({refused} refused), {len(mine) - len(clear)} depend on packages"
        )
        on = sum(verdict["fp8"] > 0 for verdict, _ in known)
        print(
            f"  FP8 on or off: {len(known) - len(lies)} of {len(known)} agree ({on} on)"
        )
        wrong += len(different) + len(lies)
    return int(wrong > 0)


def _installed(verdict: Verdict) -> tuple[str, str]:
    return verdict["version"], verdict.get("transformers", "")


def is_refused(verdict: Verdict) -> bool:
    """Return whether the trainer refuses the config."""
    return bool(verdict["error"]) and not verdict["error"].startswith(SET_UP)


def difference(of: Compared, rules: Rules, verdict: Verdict) -> str:
    """Return how fp8tune differs from the trainer on one config; ``""`` if not."""
    version = f"{of.name}=={verdict['version']}"
    found = refusals(
        check("x.yaml", verdict["yaml"].encode(), rules, Target(), only=version)
    )
    if bool(found) == is_refused(verdict):
        return ""
    ours = ", ".join(finding.rule for finding in found) or "accepts"
    return f"{verdict['id']}: trainer: {verdict['error'] or 'accepts'}; fp8tune: {ours}"


def job_of(of: Compared, verdict: Verdict) -> Job:
    """Return the job of a config, with what the verdict knows beside it."""
    known = trainer(f"{of.name}=={verdict['version']}")
    document = parse(verdict["yaml"].encode(), "x.yaml")
    document.read_as(known.about.reads)
    loaded = known.load(document.values)
    loaded.values.update(of.values(verdict))
    return known.job(loaded, Target())


def claimed(of: Compared, verdict: Verdict) -> bool | None:
    """Return whether fp8tune says that FP8 is on; ``None`` where one does not know."""
    if verdict["fp8"] is None:
        return None
    try:
        return bool(job_of(of, verdict)["fp8_on"])
    except Unknown:
        return None
