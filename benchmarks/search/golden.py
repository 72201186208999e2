"""What whole searches answer on 100 generated landscapes, to hold a redesign to it.

Each case is a replay through the command line, with its own landscape and budget; in
turn nothing goes wrong, a fifth of the settings fails, or the study is cut off at any
byte and the same command continues, once or again and again. ``--record`` writes the
answers to ``benchmarks/results/golden.jsonl``; without it they are compared with those,
and exit code 1 says that one differs. An answer is the exit code, the command's JSON
with the codes of its findings and without names of files, whether a config was written,
and the trials by outcome.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.paths import RESULTS
from tests.support.landscape import world

RECORDED = RESULTS / "golden.jsonl"
FIRST, COUNT = 9000, 100
BUDGETS = ("20m", "40m", "2h")
KINDS = ("plain", "faults", "cut", "cut again and again")
STRANGE = (("hang", 1e9), ("launch", 0.0), ("nan", 90.0), ("user", 1e7))
BATCH, AC, COMPILE = (
    "train.batch_size",
    "train.activation_checkpointing",
    "train.compile_model",
)
CUTS = 6
NO_PLOTS = "fp8tune.report.html.to_svg", lambda *_: "<svg />"
"""They take most of the time of a replay."""
NAMES_OF_FILES = "version", "output", "other_outputs", "study", "next"


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the answers, or compare with those that are recorded."""
    parser = argparse.ArgumentParser("benchmarks.search.golden", description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--count", type=int, default=COUNT, help="cases")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args(arguments)
    seeds = range(FIRST, FIRST + options.count)
    known = [] if options.record else _recorded()
    different = 0
    with Pool(options.jobs) as pool:
        found = []
        for number, case in enumerate(pool.imap(answer, seeds)):
            found.append(case)
            if options.record or case == known[number]:
                continue
            different += 1
            print(f"- {json.dumps(known[number])}\n+ {json.dumps(case)}", flush=True)
    if options.record:
        RECORDED.write_text("".join(f"{json.dumps(case)}\n" for case in found))
    print(f"{len(found)} cases, {different} differ", file=sys.stderr)
    return int(different > 0)


def answer(seed: int) -> dict[str, Any]:
    """What the search of one seed answers."""
    kind = KINDS[seed % len(KINDS)]
    budget = BUDGETS[seed % len(BUDGETS)]
    draw = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        replay_files(seed, faults=kind == "faults")
        code, said = _search(budget)
        for _ in range({"cut": 1, "cut again and again": CUTS}.get(kind, 0)):
            (study,) = Path(".fp8tune").glob("*/study.journal")
            whole = study.read_bytes()
            study.write_bytes(whole[: draw.randrange(len(whole))])
            code, said = _search(budget)
        (study,) = Path(".fp8tune").glob("*/trials.jsonl")
        lines = map(json.loads, study.read_text().splitlines())
        trials = Counter(line["outcome"] for line in lines)
    found = {
        "seed": seed,
        "kind": kind,
        "budget": budget,
        "code": code,
        "answer": {name: said[name] for name in said if name not in NAMES_OF_FILES}
        | {"findings": [finding["code"] for finding in said.get("findings", [])]},
        "written": said.get("output") is not None,
        "outcomes": dict(sorted(trials.items())),
    }
    # processors differ in the last digits of what numpy computes
    read: dict[str, Any] = json.loads(
        json.dumps(found), parse_float=lambda text: float(f"{float(text):.6g}")
    )
    return read


def replay_files(seed: int, *, faults: bool = False) -> tuple[str, str]:
    """Write a landscape's config and records here; return their names."""
    Path("a.toml").write_text(_config(seed))
    Path("r.jsonl").write_text("".join(_records(seed, faults=faults)))
    return "a.toml", "r.jsonl"


def _config(seed: int) -> str:
    place = world(seed)
    given = place.space.values(place.given)
    return (
        f"[train]\nbatch_size = {given[BATCH]}\nmixed_precision = 'fp8'\n"
        f"activation_checkpointing = '{given[AC]}'\n"
        f"compile_model = {str(given[COMPILE]).lower()}\n"
    )


def _records(seed: int, *, faults: bool) -> Iterator[str]:
    """The records to replay, one a line; with faults in a fifth of the settings."""
    draw = random.Random(seed)  # noqa: S311
    for record in world(seed).records():
        outcome, cost = draw.choice(STRANGE)
        if faults and draw.random() < 0.2:
            record = record._replace(
                outcome=outcome, cost_s=cost, tokens_per_second=0.0
            )
        yield f"{record.line()}\n"


def _search(budget: str) -> tuple[int, dict[str, Any]]:
    """Run the command in this process, without the plots of its report."""
    from fp8tune.program import main as fp8tune

    words = ["search", "a.toml", "--runner", "replay", "--records", "r.jsonl"]
    words += ["--budget", budget, "--output-format", "json"]
    out = io.StringIO()
    code = 0
    silent = contextlib.redirect_stderr(io.StringIO())
    with contextlib.redirect_stdout(out), silent, patch(*NO_PLOTS):
        try:
            fp8tune(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, json.loads(out.getvalue() or "{}")


def _recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(main())
