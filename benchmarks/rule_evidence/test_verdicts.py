"""What experiments of rules say, and which of them a machine can show."""

import json

import pytest

from benchmarks.paths import RESULTS
from benchmarks.rule_evidence.plan import (
    Machine,
    missing,
    needs_gpu_time,
    observed,
    tasks,
    verdict,
)
from benchmarks.rule_evidence.record import Record
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.packs import read_rule
from tests.each import each
from tests.sample import NO_PIPELINE


@pytest.fixture
def task(tmp_path):
    """The task of one experiment, by the lines of its table."""

    def make(lines):
        path = tmp_path / "no-pipeline.toml"
        table = f'[[experiment]]\nconfig = "[train]"\ncontrol = "[model]"\n{lines}\n'
        path.write_text(NO_PIPELINE + table, encoding="utf-8")
        return list(tasks([read_rule(str(path), "silent")]))[-1]

    return make


FINE = {"error": "", "failed_at": "", "steps": 2}


@each(
    ("expect", "seen", "control", "found"),
    [
        ("steps == 2", {}, {}, ("shown", "")),
        ("steps > 2", {}, {}, ("refuted", "as observed")),
        ("steps < max_steps", {}, {}, ("shown", "")),
        ("steps < control.steps", {}, {"steps": 3}, ("shown", "")),
        ('error != ""', {"error": "E: x"}, {}, ("shown", "")),
        (
            '"y" in error',
            {"error": "E: x"},
            {},
            ("refuted", "E: x"),
        ),
        (
            "steps == 2",
            {},
            {"error": "E: x"},
            ("unclear", "the control failed: E: x"),
        ),
        (
            "step_ms > 1",
            {"error": "E: x"},
            {},
            ("unclear", "step_ms is unknown: E: x"),
        ),
        ("peak_gib > 1", {}, {}, ("unclear", "peak_gib is unknown: not seen")),
    ],
)
def test_verdicts(task, expect, seen, control, found):
    one = task(f"expect = '{expect}'")
    assert verdict(one, "[train]\n", FINE | seen, FINE | control) == found


@pytest.mark.parametrize(
    ("lines", "gpus", "capability", "reason"),
    [
        ('device = "cpu"\nranks = 8', 0, 0, ""),
        ('device = "cuda"', 0, 0, "needs 1 GPU"),
        ('device = "cuda"\nranks = 4', 1, 9.0, "needs 4 GPUs"),
        ('device = "cuda"\nneeds = "capability >= 8.9"', 1, 9.0, ""),
        (
            'device = "cuda"\nneeds = "capability >= 8.9"',
            1,
            8.0,
            "needs 1 GPU of capability >= 8.9",
        ),
    ],
)
def test_what_a_machine_lacks(task, lines, gpus, capability, reason):
    one = task(f'expect = "steps == 2"\n{lines}')
    assert missing(one, Machine(gpus, {"capability": capability})) == reason


def test_only_what_is_asked_for_is_watched(task):
    one = task("expect = 'kept_gib > control.step_ms * pp and error == \"\"'")
    assert observed(one) == ["error", "kept_gib", "step_ms"]


def test_no_recorded_outcome_is_against_its_rule():
    outcomes = json.loads((RESULTS / "rule_evidence.json").read_text())["outcomes"]
    assert {outcome["verdict"] for outcome in outcomes} <= {"shown", "not run"}
    assert len([o for o in outcomes if o["verdict"] == "shown"]) > 30


def outcome(word, where):
    return {"verdict": word, "reason": "", "environment": where}


def test_outcomes_are_kept_until_their_experiment_changes(task, tmp_path):
    path = tmp_path / "out.json"
    here = {"gpu": "none"}
    one = task('expect = "steps == 2"')
    record = Record(path)
    record.add(one, outcome("shown", here))
    record.add(one, outcome("not run", None))
    record.save()
    again = Record(path)
    again.keep([one])
    assert again.ran(one)
    assert [o["verdict"] for o in again.outcomes.values()] == ["shown"]
    assert json.loads(path.read_text())["environments"] == [here]
    assert (
        "| no-pipeline | 1 | cuda, A | shown |" in path.with_suffix(".md").read_text()
    )
    other = task('expect = "steps == 3"')
    again.keep([other])
    assert not again.ran(other)
    assert again.outcomes == {}


def test_the_rules_that_step_times_of_one_gpu_decide():
    """Those that an H100 with 80 GiB runs of the group ``gpu-only``."""
    h100 = Machine(1, {"capability": 9.0, "gpu_gib": 79.6, "host_gib": 500.0})
    group = [task for task in tasks(read_builtin()) if needs_gpu_time(task)]
    assert {task.rule.name for task in group if not missing(task, h100)} == {
        "fp8-without-compile",
        "fp8-below-4096-tokens",
        "fp8-linears-slower",
        "fp8-in-a-narrow-model",
        "fp8-accumulates-small-batches",
        "fp8-attention-dominates",
        "moe-with-compile",
        "packing-masks-attention",
    }
