"""Real workers that hang, crash, or never start: the search ends in time."""

import os
import sys
import time
from pathlib import Path

import pytest

from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.driver import current
from fp8tune.runners.watch import Guard
from fp8tune.search.loop import Search
from fp8tune.search.plan import config_to_search, plan_for_trials
from fp8tune.search.pool import Peer
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.trials.record import OtherProcess
from fp8tune.trials.runner import TrialLimits
from tests.runners import fake_nvml
from tests.sample import SMALL_MODEL

WORKER = Path(__file__).parent.parent / "runners" / "faulty_worker.py"
CONFIG = (
    SMALL_MODEL
    + """\
[train]
batch_size = {batch}
grad_accum_steps = {steps}
seq_len = 32
mixed_precision = "fp8"
compile_model = false
"""
)
LONG = 3600.0
"""Seconds that only a worker which hangs takes."""


@pytest.fixture(scope="module")
def budget():
    """Seconds in which a search runs many sound trials, however slow the machine."""
    start = time.monotonic()
    for _ in range(3):
        assert (
            runner("sound", CONFIG.format(batch=2, steps=4))
            .run({}, TrialLimits(LONG))
            .ok
        )
    return max(4.0, 10 * (time.monotonic() - start))


def runner(fault, text, guard=None):
    """Runs faulty workers as trials of a config."""
    config = config_to_search("a.toml", text.encode(), Target("", 1), "kempnerforge")
    worker = (sys.executable, str(WORKER), fault)
    return Builtin(config, Setup("cpu"), worker, guard)


def planned(batch):
    text = CONFIG.format(batch=batch, steps=8 // batch)
    config = config_to_search("a.toml", text.encode(), Target("", 1))
    return text, plan_for_trials(config, (), "cpu")


def searched(fault, seconds, batch=2, study=None):
    """Return the plan, answer and trials of a search among faults."""
    text, plan = planned(batch)
    study = study or Study(plan.space)
    study.take_up()
    strategy = Strategy(study, plan.baseline)
    search = Search(
        plan.space,
        plan.baseline,
        Peer(study, runner(fault, text)),
        strategy,
        study,
        seconds,
    )
    return plan, search.run(), study.trials


COUNTED = {"slowed": 0.0}


@pytest.mark.parametrize(
    ("state", "outcome", "watts", "told"),
    [
        ({}, "ok", 650.0, COUNTED),
        ({"counter_watts": None}, "ok", None, COUNTED),
        ({"reasons": 0x44}, "throttled", None, {"slowed": 1.0}),  # no step counts
        # beside a process of half a GiB that computes
        ({"use": 90}, "shared", 650.0, {**COUNTED, "gpu_busy": 0.9}),
        # a driver that has just started, and a process too small to compute
        ({"use": 99, "apps": "7:100"}, "ok", 650.0, COUNTED),
    ],
)
def test_the_gpu_is_watched_while_a_trial_is_steady(
    tmp_path, monkeypatch, state, outcome, watts, told
):
    usual = {"apps": "7:512", "mhz": 1755, "celsius": 61, "reasons": 4}
    power = {"counter_watts": 650, "used_mib": 520}
    fake_nvml.install(tmp_path, monkeypatch, **usual | power | state)
    text = CONFIG.format(batch=1, steps=8)
    guard = Guard(current())  # of 2.5 s of steps
    found = runner("takes_a_while", text, guard).run({}, TrialLimits(LONG))
    assert (found.outcome, found.tokens_per_second) == (outcome, 100.0)
    seen = {"sm_mhz": 1755, "temperature_c": 61, **told}
    assert found.data().items() >= seen.items()
    assert found.power_w == pytest.approx(watts or 0.0, rel=0.01)
    assert found.others == (OtherProcess("program-7", 7, 0.5),) * ("apps" not in state)
    assert found.versions["driver"] == "580.82.07"


@pytest.mark.parametrize(("word", "last"), [("", ""), ("why", "a line of its own")])
def test_what_libraries_say_to_their_import_is_no_cause(monkeypatch, word, last):
    monkeypatch.setenv("FP8TUNE_TEST", word)
    found = runner("crashes", CONFIG.format(batch=1, steps=8)).run(
        {}, TrialLimits(LONG)
    )
    said = "the worker was killed by SIGSEGV in stage steady"
    assert found.message == said + f"; its last line: {last}" * bool(last)


def left_behind(mark):
    """Processes with a word in their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                yield folder.name
        except OSError:
            continue


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("never_starts", "launch"),
        ("hangs", "hang"),
        ("leaves_the_session", "hang"),
        ("aborts", "launch"),
        ("exits", "launch"),
        ("floods", "launch"),
        ("closes_stdout", "launch"),
        ("talks_without_end", "hang"),
        ("out_of_memory", "oom"),
        ("lies", "launch"),
    ],
)
def test_faults_among_sound_trials(monkeypatch, budget, fault, outcome):
    mark = f"test-{fault}-{os.getpid()}"
    monkeypatch.setenv("FP8TUNE_TEST", mark)
    plan, found, trials = searched(fault, budget)
    assert found.chosen is not None
    assert plan.space.value(found.chosen, "micro_batch") == 2
    wrong = {
        t.record.outcome for t in trials if t.record.knobs["train.batch_size"] != 2
    }
    assert wrong == {outcome}
    assert list(left_behind(mark)) == []


@pytest.mark.parametrize("fault", ["never_starts", "hangs", "exits"])
def test_a_config_of_ones_own_that_goes_wrong(budget, fault):
    plan, found, trials = searched(fault, budget, batch=4)
    assert trials[0].stage == "baseline"
    assert not trials[0].record.ok
    if fault == "exits":  # it takes no time, so that there is some for others
        assert plan.space.value(found.chosen, "micro_batch") == 2


def test_what_is_fixed_runs_with_the_same_command(budget):
    study = Study(planned(4)[1].space)
    _, found, _ = searched("cannot_import", budget, 4, study)
    assert found.chosen is None
    before = len(study.trials)
    _, found, trials = searched("sound", budget, 4, study)
    assert trials[before].stage == "baseline"
    assert trials[before].record.ok
    assert found.chosen is not None
