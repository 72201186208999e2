"""A measured fit is no finding in the file that the search writes."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.search.linting import PREDICTED, with_measured
from fp8tune.search.write.writeback import Choice, write_back
from tests.sample import LLAMA_8B
from tests.search.tries import GIVEN, ran

TARGET = Target("h100-sxm", 1, "--gpu", "--world-size")
CONFIG = f"""\
{LLAMA_8B}[train]
batch_size = 2
seq_len = 4096
mixed_precision = "fp8"
compile_model = true
activation_checkpointing = "full"
[scheduler]
warmup_steps = 10
"""
BATCH = Choice("train.batch_size", 8, "2 -> 8")
TOLD = {"capacity_gib": 79.1}


def measured(**more):
    return ran(GIVEN, peak_gib=71.0, more={**TOLD, **more})


def findings(data, rules, target=TARGET):
    every = check("a.toml", data, rules, target).diagnostics
    ours = (*PREDICTED, "unused-ignore", "bad-ignore", "unknown-ignore")
    return [found.rule for found in every if found.rule in ours]


def test_the_rules_are_there():
    assert set(PREDICTED) <= {rule.name for rule in read_builtin()}


def test_a_measured_fit_is_said_and_silences_the_prediction(rules):
    after = write_back(CONFIG.encode(), [BATCH])
    assert "out-of-memory" in findings(after, rules)
    known = with_measured("a.toml", after, measured(), TARGET)
    assert findings(known, rules) == []
    assert b"# fp8tune: ignore[out-of-memory] -- fp8tune search measured 71.0" in known
    assert findings(known, rules, Target()) == []


def test_a_second_search_replaces_the_comment(rules):
    after = write_back(CONFIG.encode(), [BATCH])
    once = with_measured("a.toml", after, measured(), TARGET)
    again = write_back(once, [BATCH])
    assert again == after
    assert with_measured("a.toml", again, measured(), TARGET) == once


@pytest.mark.parametrize(
    "record",
    [
        None,
        ran(GIVEN, peak_gib=71.0),
        ran(GIVEN, more=TOLD),
        ran(GIVEN, outcome="oom", peak_gib=71.0, more={"capacity_gib": 71.0}),
        measured(rehearsal=True),
        measured(extrapolated="rank 0 of 8"),
        measured(alloc_retries=3),
    ],
)
def test_what_was_not_measured_refutes_nothing(record):
    after = write_back(CONFIG.encode(), [BATCH])
    assert with_measured("a.toml", after, record, TARGET) == after
