"""Whether losses can be compared, by a config and what may change in it."""

import pytest

from fp8tune.job import Target
from fp8tune.search.losses.loss_runs import (
    Conditions,
    conditions_for_replay,
    conditions_for_trials,
)
from fp8tune.search.plan import read_config
from tests.report.studies import CONFIG
from tests.search.losses.runs import curve, learned


def config(scheduler=""):
    text = f"{CONFIG}[scheduler]\n{scheduler}"
    return read_config("a.toml", text.encode(), Target("h200", 1), "kempnerforge")


@pytest.mark.parametrize(
    ("allow", "free"),
    [
        ((), False),
        (("precision",), False),
        (("warmup",), True),
        (("warmup_steps",), True),
        (("scheduler.warmup_steps",), True),
    ],
)
def test_the_warmup_is_the_config_s_and_frozen_unless_allowed(allow, free):
    made = conditions_for_trials(config("warmup_steps = 100\n"), allow, 1)
    assert made == Conditions(100, free, "", can_run=made.can_run)
    assert made.can_run({}, None)


def test_without_a_schedule_there_is_no_warmup():
    made = conditions_for_trials(
        config('name = "none"\nwarmup_steps = 100\n'), ("warmup",), 1
    )
    assert made.warmup_steps == 0
    assert made.may_change_warmup is False
    assert made.scheduled is False


@pytest.mark.parametrize(
    "flags",
    [
        "--train-samples 6400 --lr-warmup-samples 640 --rampup-batch-size 1 1 9",
        "--train-iters 100 --lr-warmup-fraction 0.1",
    ],
)
def test_a_warmup_that_is_no_number_of_steps_is_not_run(flags):
    text = f"torchrun pretrain_gpt.py --micro-batch-size 1 {flags}\n"
    made = read_config("a.sh", text.encode(), Target("h200", 1), "megatron_lm")
    assert conditions_for_trials(made, (), 1).refusal == (
        "the warmup is a share of the run, or its batch grows: say it in steps, "
        "`--train-iters` with `--lr-warmup-iters`"
    )


def test_one_rank_of_many_does_not_know_the_loss():
    made = conditions_for_trials(config(), (), 8)
    assert made.refusal.startswith("a trial runs one of 8 ranks")


def test_a_replay_has_runs_as_long_as_those_recorded():
    loss = learned(curve("fp8"))
    made = conditions_for_replay(config(), [loss], (), lambda _knobs, _how: False)
    assert (made.steps, made.can_run({}, None)) == (32, False)
    assert conditions_for_replay(config(), [], (), lambda _knobs, _how: True) is None
