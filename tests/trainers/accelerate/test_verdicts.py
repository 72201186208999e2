"""What Accelerate, transformers and TRL made of launch files, and what lint says.

``tests/data/accelerate_verdicts.jsonl.gz`` holds generated files with the verdicts of
several releases (``python -m tools.accelerate.verdicts``).
"""

from collections import Counter
from pathlib import Path

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.about import trainers
from tools.accelerate.verdicts import kind_of, outcomes
from tools.kempnerforge.verdicts import labelled

DATA = Path(__file__).parents[2] / "data" / "accelerate_verdicts.jsonl.gz"


def test_lint_says_what_happens():
    rules = Rules(read_builtin(), {})
    counts, different = Counter(), []
    for verdict in labelled(DATA):
        theirs, ours, why = outcomes(rules, verdict)
        counts[kind_of(verdict)] += bool(ours)
        if ours not in ("", theirs):
            different.append((verdict["id"], theirs, ours, why))
    assert different == []
    launched = {release for release, of_fp8 in counts if not of_fp8}
    assert launched == set(trainers()["accelerate"].versions)
    assert min(counts.values()) > 50
