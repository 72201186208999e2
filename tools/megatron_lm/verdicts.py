"""Whether fp8tune refuses exactly the flags that Megatron-LM itself refuses.

``PYTHON -m tools.megatron_lm.verdicts CHECKOUT --count 400 --seed 1`` draws flags
(``generate.py``), lets Megatron-LM judge them (``judge.py``) and compares with lint of
a script that has them. Of flags that are not refused it compares too whether the model
can be built, and whether any of its layers runs in FP8. ``--output FILE`` keeps the
cases, ``--verdicts FILE`` compares kept ones.
"""

from __future__ import annotations

import sys

from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.trainer import trainer
from tools.judged import Case, fp8_on, main, refused, report_of
from tools.kempnerforge.verdicts import refusals
from tools.megatron_lm.generate import configs, script

LATER = ("fp8-tokens-not-16", "experts-without-sequence-parallel")
"""Rules on what ends a run behind its set-up."""


def difference(rules: Rules, case: Case) -> str:
    """Return how lint differs on one case; empty if it does not."""
    text = script(case["flags"], case["world_size"])
    report = report_of(rules, "x.sh", text, "megatron_lm", case["world_size"])
    if case["error"] or refusals(report):
        return refused(case, report, case["error"])
    failure = case["failure"]
    ends = [
        each.rule
        for each in report.diagnostics
        if (each.category, each.severity) == ("crash", "error")
        and each.rule not in LATER
    ]
    if bool(ends) == bool(failure):
        return ""
    return f"{case['id']}: trainer: {failure or 'builds'}; fp8tune: {ends or 'builds'}"


def fp8(case: Case) -> tuple[bool | None, set[bool]]:
    """Return whether FP8 is on by lint, and in the model if that was built."""
    known = trainer("megatron_lm")
    text = script(case["flags"], case["world_size"])
    values = parse(text.encode(), "x.sh").values
    job = known.job(known.load(values), Target(world_size=case["world_size"]))
    return fp8_on(job), {case["fp8"] > 0} if "fp8" in case else set()


if __name__ == "__main__":
    sys.exit(main("megatron_lm", 1, configs, difference, fp8))
