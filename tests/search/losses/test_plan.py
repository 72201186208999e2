"""Whether losses can be compared, which run comes next, and the time kept for it."""

import pytest

from fp8tune.job import Target
from fp8tune.search.losses.loss_runs import (
    BUDGET_SHARE,
    FIRST_SEED,
    MAX_STEPS,
    MIN_STEPS,
    PLANNED_SHARE,
    USUAL_RUNS,
    VERDICT_RUNS,
    Conditions,
    RunCost,
    conditions_for_replay,
    conditions_for_trials,
    next_run,
    pair_cost,
    reserve,
    run_cost,
    run_length,
)
from fp8tune.search.plan import config_to_search
from tests.report.studies import CONFIG
from tests.search.losses.runs import (
    BEST_BF16,
    SPREAD,
    STEPS,
    WARMUP,
    climbing,
    curve,
    learned,
)
from tests.search.tries import BEST, GIVEN, SPACE, history, history_of, ran, trials

CONDITIONS = Conditions(WARMUP)


def asked(train, conditions=CONDITIONS, steps=STEPS):
    """Every run that is asked for: precision, seed, warmup."""
    runs, order = [], []
    while run := next_run(SPACE, BEST, runs, conditions, steps):
        assert run.point in (BEST, BEST_BF16)
        assert SPACE.value(run.point, "precision") == run.precision
        seed, warmup, *_ = run.loss_run
        order.append((run.precision, seed - FIRST_SEED, warmup))
        runs.append(train(run.precision, run.loss_run))
        assert len(runs) < 60
    return order


def how_good(by, lost=()):
    """Training in which FP8 is worse by a share, and diverges at some warmups."""

    def train(precision, how):
        fp8 = precision == "fp8"
        spread = SPREAD[how.seed - FIRST_SEED]
        nan = fp8 and how.warmup_steps in lost
        return curve(
            precision,
            spread + by * fp8,
            nan,
            seed=how.seed,
            warmup=how.warmup_steps,
            steps=how.steps,
            given=how.config_warmup_steps,
            free=how.may_change,
        )

    return train


def pairs(warmup, count):
    return [(p, n, warmup) for n in range(count) for p in ("fp8", "bf16")]


@pytest.mark.parametrize(
    ("by", "lost", "order"),
    [
        (0.0, (), [*pairs(8, 3), *pairs(2, 2)]),
        (0.0, (2,), [*pairs(8, 3), *pairs(2, 2), *pairs(4, 2)]),
        (0.0, (2, 4), [*pairs(8, 3), *pairs(2, 2), *pairs(4, 2)]),
        (0.0, (8,), [*pairs(8, 3), *pairs(16, 3)]),
        (0.5, (), [*pairs(8, 3), *pairs(16, 2)]),
        (0.005, (), [*pairs(8, 4), *pairs(16, 2)]),
        (0.003, (), [*pairs(8, 6), *pairs(16, 4)]),
    ],
)
def test_pairs_then_shorter_or_longer_warmups(by, lost, order):
    assert asked(how_good(by, lost)) == order


def test_a_warmup_longer_than_a_run_is_tested_by_the_longest_that_fits():
    assert asked(how_good(0.0), Conditions(2000)) == pairs(16, 3)


OWN = Conditions(2000)


@pytest.mark.parametrize("lost", [(16,), (16, 2000)])
def test_what_diverges_under_a_harsher_warmup_is_run_from_the_config_s_own_start(lost):
    """What diverges in bf16 as well gets no more seeds."""

    def both(precision, how):
        made = how_good(0.0)(precision, how)
        return made._replace(nan=how.warmup_steps in lost)

    for train in (how_good(0.0, lost), both):
        assert asked(train, OWN) == [*pairs(16, 3), *pairs(2000, 3)]


def test_more_seeds_tell_whether_one_that_diverged_was_chance():
    def train(precision, how):
        made = how_good(0.0)(precision, how)
        alone = (
            precision == "fp8" and how.seed == FIRST_SEED and how.warmup_steps in lost
        )
        return climbing(made) if alone else made

    lost = (16,)
    assert asked(train, OWN) == [*pairs(16, 6), *pairs(2000, 3)]
    lost = (16, 2000)
    assert asked(train, OWN) == [*pairs(16, 6), *pairs(2000, 6)]


def test_no_warmup_is_made_no_shorter():
    assert asked(how_good(0.0), Conditions(0)) == pairs(0, 3)
    assert asked(how_good(0.5), Conditions(0))[6:8] == pairs(4, 1)


def test_the_length_of_runs_is_that_of_the_first():
    first = curve("bf16", steps=40)
    assert next_run(SPACE, BEST, [first], CONDITIONS, 200).loss_run.steps == 40


def test_a_run_that_is_not_offered_ends_it():
    conditions = CONDITIONS._replace(can_run=lambda _knobs, how: how.seed == FIRST_SEED)
    assert asked(how_good(0.0), conditions) == pairs(8, 1)


STEP_MS = (100.0, 100.0, 100.0)
TRIED = trials(
    ("baseline", ran(GIVEN, step_ms=(900.0,), cost_s=9.0)),
    (
        "search",
        ran(BEST, step_ms=STEP_MS, cost_s=8.0, more={"all_step_ms": [2700, *STEP_MS]}),
    ),
    ("bf16-baseline", ran(BEST_BF16, step_ms=(200.0,) * 5, cost_s=4.0)),
)


def test_a_run_costs_what_trials_of_its_setting_did():
    fp8, bf16 = RunCost(5.0, 0.1), RunCost(3.0, 0.2)
    assert run_cost(history_of(TRIED), BEST) == pytest.approx(fp8)
    assert run_cost(history_of(TRIED), BEST_BF16) == pytest.approx(bf16)
    assert pair_cost(history_of(TRIED), BEST) == pytest.approx(RunCost(4.0, 0.15))
    assert pair_cost(history_of(TRIED[:2]), BEST) == pytest.approx(fp8)
    assert pair_cost(history(("search", ran(BEST, outcome="oom"))), BEST) is None


COST = RunCost(5.0, 0.2)
SHORTEST = VERDICT_RUNS * COST.seconds(MIN_STEPS) / PLANNED_SHARE


def test_runs_are_as_long_as_the_share_of_the_budget_allows():
    usual = USUAL_RUNS * COST.seconds(50.01) / PLANNED_SHARE
    assert run_length(COST, 1e9, usual / BUDGET_SHARE) == 50
    assert run_length(COST, usual, 1e9) == 50
    assert run_length(COST, 1e9, 1e9) == MAX_STEPS
    assert run_length(COST, SHORTEST + 0.1, SHORTEST) == MIN_STEPS
    assert run_length(COST, SHORTEST - 0.1, 1e9) == 0
    assert run_length(None, 1e9, 1e9) == 0


def test_time_is_reserved_if_a_verdict_fits_into_the_share():
    smallest = SHORTEST / BUDGET_SHARE
    assert reserve(COST, smallest + 1e-6) == pytest.approx(SHORTEST)
    assert reserve(COST, smallest - 1) == 0.0
    longest = USUAL_RUNS * COST.seconds(MAX_STEPS) / PLANNED_SHARE
    assert reserve(COST, 1e9) == longest
    assert reserve(None, 1e9) == 0.0


def config(scheduler=""):
    text = f"{CONFIG}[scheduler]\n{scheduler}"
    return config_to_search("a.toml", text.encode(), Target("h200", 1), "kempnerforge")


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
    made = config_to_search("a.sh", text.encode(), Target("h200", 1), "megatron_lm")
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
