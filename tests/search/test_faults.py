"""Real workers that hang, crash, or never start: the search ends in time."""

import os
import sys
import time
import tomllib
from pathlib import Path

import pytest

from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.watch import Guard
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.guided import Guided
from fp8tune.search.plan import read_config
from fp8tune.search.real import plan_for_trials
from fp8tune.search.study import Study
from fp8tune.trainers.trainer import trainer
from tests.runners.fake_smi import install
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
BUDGET = 6.0


def searched(fault, batch=2, study=None):
    """The answer of a search among faults, its trials, and how long it took."""
    text = CONFIG.format(batch=batch, steps=8 // batch)
    config = read_config("a.toml", text.encode(), Target("", 1))
    plan = plan_for_trials(config, (), "cpu")
    known = trainer("kempnerforge")
    worker = (sys.executable, str(WORKER), fault)
    loaded = known.load(tomllib.loads(text))
    runner = Builtin(known, loaded, Target("", 1), Setup("cpu"), worker)
    strategy = Guided(plan.space, plan.given)
    study = study or Study("")
    study.take_up()
    limits = Limits(BUDGET)
    start = time.monotonic()
    found = Search(plan.space, plan.given, runner, strategy, study, limits).run()
    return plan, found, study.trials, time.monotonic() - start


@pytest.mark.parametrize(
    ("reasons", "outcome", "told"),
    [
        ("0x0000000000000004", "ok", {"power_w": 652.3, "slowed": 0.0}),
        ("0x0000000000000044", "throttled", {"slowed": 1.0}),  # no step counts
    ],
)
def test_the_gpu_is_watched_while_a_trial_is_steady(
    tmp_path, monkeypatch, reasons, outcome, told
):
    install(
        tmp_path,
        monkeypatch,
        apps=[("7", "other", "512")],
        clocks_event_reasons__active=reasons,
    )
    text = CONFIG.format(batch=1, steps=8)
    loaded = trainer("kempnerforge").load(tomllib.loads(text))
    worker = (sys.executable, str(WORKER), "takes_a_while")
    setup = Setup("cpu")
    known, target = trainer("kempnerforge"), Target("", 1)
    runner = Builtin(known, loaded, target, setup, worker, Guard())
    found = runner.run({}, 60.0)
    assert (found.outcome, found.tokens_per_second) == (outcome, 100.0)
    assert ("power_w" in found.more) == ("power_w" in told)
    seen = {"sm_mhz": 1755.0, "temperature_c": 61.0, **told}
    other = {"pid": 7, "name": "other", "gib": 0.5}
    assert found.more.items() >= {**seen, "others": [other]}.items()


@pytest.mark.parametrize(("word", "last"), [("", ""), ("why", "a line of its own")])
def test_what_libraries_say_to_their_import_is_no_cause(monkeypatch, word, last):
    monkeypatch.setenv("FP8TUNE_TEST", word)
    loaded = trainer("kempnerforge").load(
        tomllib.loads(CONFIG.format(batch=1, steps=8))
    )
    worker = (sys.executable, str(WORKER), "crashes")
    known, target = trainer("kempnerforge"), Target("", 1)
    found = Builtin(known, loaded, target, Setup("cpu"), worker).run({}, 60.0)
    said = "the worker died of SIGSEGV in stage steady"
    assert found.more["message"] == said + f"; it said last: {last}" * bool(last)


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
def test_faults_among_sound_trials(monkeypatch, fault, outcome):
    mark = f"test-{fault}-{os.getpid()}"
    monkeypatch.setenv("FP8TUNE_TEST", mark)
    plan, found, trials, seconds = searched(fault)
    assert seconds < BUDGET + 60
    assert found.chosen is not None
    assert plan.space.value(found.chosen, "micro_batch") == 2
    wrong = {
        t.record.outcome for t in trials if t.record.knobs["train.batch_size"] != 2
    }
    assert wrong == {outcome}
    assert list(left_behind(mark)) == []


@pytest.mark.parametrize("fault", ["never_starts", "hangs", "exits"])
def test_a_config_of_ones_own_that_goes_wrong(fault):
    plan, found, trials, seconds = searched(fault, batch=4)
    assert seconds < BUDGET + 60
    assert trials[0].stage == "given"
    assert not trials[0].record.ok
    if fault == "exits":  # it takes no time, so that there is some for others
        assert plan.space.value(found.chosen, "micro_batch") == 2


def test_where_nothing_starts_it_is_not_tried_for_long():
    _, found, trials, seconds = searched("cannot_import", batch=4)
    assert found.chosen is None
    assert len(trials) == 4
    assert seconds < BUDGET


def test_what_is_mended_runs_with_the_same_command():
    study = Study("")
    _, found, _, _ = searched("cannot_import", 4, study)
    assert found.chosen is None
    before = len(study.trials)
    _, found, trials, _ = searched("sound", 4, study)
    assert trials[before].stage == "given"
    assert trials[before].record.ok
    assert found.chosen is not None
