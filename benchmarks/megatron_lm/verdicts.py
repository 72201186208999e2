"""Whether fp8tune refuses exactly the flags that Megatron-LM itself refuses.

``PYTHON -m benchmarks.megatron_lm.verdicts CHECKOUT --count 400 --seed 1`` draws flags
(``generate.py``), lets Megatron-LM judge them (``judge.py``) and compares with lint of
a script that has them. ``--output FILE`` keeps the cases, ``--verdicts FILE`` compares
kept ones. What asks for the version of Transformer Engine is not comparable.
"""

from __future__ import annotations

import sys

from benchmarks.judged import Case, main, refused, report_of
from benchmarks.megatron_lm.generate import configs, script
from fp8tune.lint.ruleset import Rules

VERSIONS = ("Transformer Engine >=", "transformer-engine>=")
"""Parts of the messages that ask for a version of what is not installed."""


def difference(rules: Rules, case: Case) -> str | None:
    """Return how lint differs on one case."""
    error = case["error"]
    if any(part in error for part in VERSIONS):
        return None
    text = script(case["flags"], case["world_size"])
    report = report_of(rules, "x.sh", text, "megatron_lm", case["world_size"])
    return refused(case, report, error)


if __name__ == "__main__":
    sys.exit(main("megatron_lm", 1, configs, difference))
