"""Whether lint says of overrides what Megatron-Bridge itself makes of them.

``PYTHON -m tools.megatron_bridge.verdicts BRIDGE MEGATRON --seed 1`` draws files
(``generate.py``), lets Bridge merge each into recipes of several mixed precisions
(``judge.py``) and compares what is refused, which keys are skipped, the FP8 format of
the model where the file says it, and mappings that only some recipes can take. What
these recipes decide differently is not comparable. Where lint says whether FP8 is on,
some layer of each recipe's model must compute in it, or none. ``--output FILE`` keeps
the cases, ``--verdicts FILE`` compares kept ones, ``--record`` writes the figures.
"""

from __future__ import annotations

import sys

import yaml

from fp8tune.job import Target
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.trainer import trainer
from tools.judged import Case, fp8_on, main, refused, report_of
from tools.megatron_bridge.generate import configs

LOST = "object has no attribute 'finalize'"


def difference(rules: Rules, case: Case) -> str | None:
    """Return how lint differs on one case."""
    verdicts = case["verdicts"]
    report = report_of(rules, "x.yaml", case["yaml"], "megatron_bridge")
    fired = {found.rule for found in report.diagnostics}
    if (LOST in verdicts[0]["error"]) != ("precision-without-target" in fired):
        return f"{case['id']}: a mapping: {verdicts[0]['error'] or 'accepted'}"
    known = trainer("megatron_bridge")
    values = yaml.safe_load(case["yaml"])
    loaded = known.load(values)
    said = [f for f in loaded.faults if f.kind == "ignored-key"]
    ignored = sorted(str(fault.facts["name"]) for fault in said)
    by_class = "_target_" in str(values.get("mixed_precision"))  # drops keys silently
    if not by_class and ignored != verdicts[1]["skipped"]:
        return f"{case['id']}: skipped {verdicts[1]['skipped']}, fp8tune {ignored}"
    formats = {verdict["fp8"] for verdict in verdicts if not verdict["error"]}
    told = known.job(loaded, Target()).find("te_format")
    if told is not None and {told or None} != (formats or {told or None}):
        return f"{case['id']}: FP8 {formats}, fp8tune {told}"
    errors = {v["error"] for v in verdicts if LOST not in v["error"]}
    return None if len(errors) > 1 else refused(case, report, errors.pop())


def fp8(case: Case) -> tuple[bool | None, set[bool]]:
    """Return whether FP8 is on by lint, and in the model of each recipe."""
    known = trainer("megatron_bridge")
    job = known.job(known.load(yaml.safe_load(case["yaml"])), Target())
    built = (verdict for verdict in case["verdicts"] if not verdict["error"])
    return fp8_on(job), {verdict["layers"] > 0 for verdict in built}


if __name__ == "__main__":
    sys.exit(main("megatron_bridge", 2, configs, difference, fp8))
