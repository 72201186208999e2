"""From the trials of a study to a finding; odd records are no runs."""

import pytest

from fp8tune.search.history import History
from fp8tune.search.losses.compare import LossCurve, loss_curve
from fp8tune.search.losses.findings import loss_key, stability_by_setting
from tests.search.losses import runs as made
from tests.search.losses.runs import BEST_BF16, climbing, learned, seeds
from tests.search.tries import BEST, GIVEN, OTHER, SPACE, but, ran, trials


def study(*curves):
    return trials(*(("stability", learned(run)) for run in curves))


def both(by=0.0, **how):
    return [*seeds(**how), *seeds("fp8", by, **how)]


def found(*curves):
    return stability_by_setting(SPACE, study(*curves), GIVEN)[BEST]


def test_a_record_is_read_as_it_was_made():
    run = made.curve("fp8")
    assert loss_curve(learned(run), "fp8") == run
    lost = made.curve("fp8", nan=True)
    assert loss_curve(learned(lost), "fp8") == lost


@pytest.mark.parametrize(
    "more",
    [
        {"loss_run": None},
        {"loss_run": 1},
        {"loss_run": {"seed": 1}},
        {"loss_run": {**made.course()._asdict(), "seed": "42"}},
        {"loss_run": {**made.course()._asdict(), "steps": 0}},
        {"loss_run": {**made.course()._asdict(), "seed": True}},
        {"loss_run": {**made.course()._asdict(), "other": 1}},
    ],
)
def test_an_odd_course_is_none(more):
    assert ran(BEST, more=more).loss_run is None
    study = trials(("stability", ran(BEST, more=more)))
    assert stability_by_setting(SPACE, study, GIVEN) == {}


@pytest.mark.parametrize("losses", [None, "x", [1.0, "y"], [1.0, float("nan")], [1.0]])
def test_a_series_that_is_cut_short_is_no_run(losses):
    record = but(learned(made.curve("fp8")), losses=losses)
    assert loss_curve(record, "fp8") is None


@pytest.mark.parametrize("outcome", ["throttled", "shared"])
def test_a_run_slowed_by_the_gpu_has_its_losses(outcome):
    record = learned(made.curve("fp8"))._replace(outcome=outcome)
    assert loss_curve(record, "fp8") == made.curve("fp8")


def test_the_config_s_warmup_and_no_other():
    told = found(*both())
    assert (told.verdict, told.tested.warmup_steps, told.others) == ("inside", 8, ())
    assert (told.proposed_warmup, told.tokens, told.rejects) == (8, 1024 * 32, False)


def test_nothing_without_a_pair():
    assert stability_by_setting(SPACE, study(*seeds()), GIVEN) == {}
    assert stability_by_setting(SPACE, trials(("search", ran(BEST))), GIVEN) == {}


def test_the_shortest_warmup_that_stays_inside_is_proposed():
    shorter = [*both(warmup=4, count=2), *both(0.5, warmup=2, count=2)]
    told = found(*both(), *shorter)
    said = {other.warmup_steps: other.verdict for other in told.others}
    assert (told.proposed_warmup, said) == (4, {2: "outside", 4: "inside"})


def test_a_warmup_that_harms_bf16_is_not_proposed():
    harmed = [*seeds(by=0.2, warmup=4, count=2), *seeds("fp8", 0.2, warmup=4, count=2)]
    told = found(*both(), *harmed)
    assert (told.proposed_warmup, told.others[0].verdict) == (8, "inconclusive")


def lost(**how):
    return [*seeds(**how), *(run._replace(nan=True) for run in seeds("fp8", **how))]


def test_what_diverges_is_rejected_in_every_execution_setting():
    history = History(SPACE, GIVEN, study(*lost()))
    assert [history.is_rejected(p) for p in (GIVEN, OTHER, BEST_BF16)] == [1, 1, 0]
    assert (
        loss_key(SPACE, GIVEN) == loss_key(SPACE, OTHER) != loss_key(SPACE, BEST_BF16)
    )


def test_a_longer_warmup_mends_nothing_until_all_that_diverged_ran_under_it():
    told = found(*lost(free=True), *both(warmup=16, count=2, free=True))
    assert (told.proposed_warmup, told.rejects) == (None, True)


def test_one_run_that_climbs_makes_fp8_doubtful():
    fp8 = seeds("fp8")
    told = found(*seeds(), climbing(fp8[0]), *fp8[1:])
    assert told.verdict == "inconclusive"
    assert told.rejects is False
    assert told.may_diverge is True


@pytest.mark.parametrize("wrong", [climbing, lambda run: run._replace(nan=True)])
def test_two_that_climb_or_one_nan_reject(wrong):
    fp8 = [climbing(run) for run in seeds("fp8")[:2]]
    told = found(*seeds(), *fp8, wrong(seeds("fp8")[2]))
    assert (told.verdict, told.rejects) == ("diverged", True)


def test_one_run_that_climbs_in_the_first_steps_rejects_nothing():
    fp8 = seeds("fp8", warmup=2000, given=2000)
    fp8[0] = climbing(fp8[0])
    told = found(*lost(given=2000), *seeds(warmup=2000, given=2000), *fp8)
    assert told.first_steps.diverged == (1, 0)
    assert told.rejects is False
    assert told.may_diverge is True


def test_the_same_seed_in_one_precision_alone_is_no_pair():
    told = found(*both(), made.curve("fp8", seed=99))
    assert told.tested.seeds == 3


def test_series_stop_at_what_is_no_number():
    run = made.curve("fp8", nan=True)
    record = but(learned(run), losses=[*run.losses, None, 3.0])
    assert loss_curve(record, "fp8") == LossCurve(
        "fp8", run.loss_run, run.losses, run.grad_norms, True
    )
