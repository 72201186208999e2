"""Whether lint says of recipes what NeMo Automodel itself makes of them.

``PYTHON -m tools.automodel.verdicts CHECKOUT --count 400 --seed 1`` draws recipes
(``generate.py``), lets Automodel set them up (``judge.py``) and compares what is
refused, whether any linear runs in FP8, and whether the model is compiled.
``--output FILE`` keeps the cases, ``--verdicts FILE`` compares kept ones.
"""

from __future__ import annotations

import sys

import yaml

from fp8tune.job import Target
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.trainer import trainer
from tools.automodel.generate import configs
from tools.judged import Case, main, refused, report_of

VERSION = "automodel==0.5.0"


def difference(rules: Rules, case: Case) -> str:
    """Return how lint differs on one case."""
    report = report_of(rules, "x.yaml", case["yaml"], VERSION)
    differs = refused(case, report, case["error"])
    if differs or case["error"]:
        return differs
    known = trainer(VERSION)
    job = known.job(known.load(yaml.safe_load(case["yaml"])), Target())
    told = job.find("float8_linears"), job.find("compile")
    made = case["fp8"] > 0, case["compiled"]
    return "" if told == made else f"{case['id']}: trainer {made}, fp8tune {told}"


if __name__ == "__main__":
    sys.exit(main("automodel", 1, configs, difference, None))
