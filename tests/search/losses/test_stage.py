"""A whole search with its last stage, on recorded speeds and generated losses."""

from itertools import groupby

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.search.answer.decide import decide
from fp8tune.search.history import History
from fp8tune.search.loop import Search
from fp8tune.search.losses.loss_runs import BUDGET_SHARE, FIRST_SEED, Conditions
from fp8tune.search.pool import Peer
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.space import Knob, Space
from fp8tune.trials.trial import timed
from tests.each import each
from tests.search.losses.runs import BEST_BF16, SPREAD, WARMUP, curve, learned
from tests.search.tries import (
    BEST,
    BF16,
    GIVEN,
    OTHER,
    SPACE,
    InOrder,
    ran,
    space_of,
    trials,
    without_numbers,
    without_trial_numbers,
)

STEP_MS = (500.0,) * 5
RECORDS = [
    ran(point, speed, step_ms=STEP_MS)
    for point, speed in (
        (GIVEN, 100),
        (BF16, 90),
        (BEST, 150),
        (BEST_BF16, 120),
    )
]
RECORDS.append(ran(OTHER, outcome="oom", cost_s=30.0))
CONDITIONS = Conditions(WARMUP)


class Learning(Replay):
    """Replays speeds; losses are made up, FP8's worse by a share."""

    by = 0.0
    nan = ()
    outcome = ""
    cost_s = 20.0

    def train_for_losses(self, knobs, loss_run, deadline_s):
        point = self.space.point(knobs)
        precision = self.space.value(point, "precision")
        fp8 = precision == "fp8"
        made = curve(
            precision,
            SPREAD[loss_run.seed - FIRST_SEED] + self.by * fp8,
            fp8 and loss_run.warmup_steps in self.nan,
            seed=loss_run.seed,
            warmup=loss_run.warmup_steps,
            steps=loss_run.steps,
        )._replace(loss_run=loss_run)
        cost = min(self.cost_s, deadline_s)
        self._now += cost
        record = learned(made, point, self.space, cost)
        if self.outcome or cost < self.cost_s:
            outcome = self.outcome or "hang"
            return Record(
                knobs, outcome, cost_s=cost, message="as told", loss_run=loss_run
            )
        return record


def runner(**how):
    return type("Made", (Learning,), how)


def searched(
    made=Learning,
    budget=7200.0,
    conditions=CONDITIONS,
    records=RECORDS,
    study=None,
    space=None,
    given=GIVEN,
    strategy=None,
):
    space = space or space_of(records)
    study = study or Study(space)
    replay = made(records, space)
    for trial in timed(study.trials):
        replay.skip(space.point(trial.record.knobs))
    strategy = strategy or InOrder(OTHER, BEST)
    peer, known = Peer(study, replay), {"conditions": conditions}
    search = Search(space, given, peer, strategy, study, budget, **known)
    return search.run(), study


def stages(study):
    found = [trial.stage for trial in study.trials]
    return found.count("confirm"), found.count("stability")


def test_the_chosen_setting_is_compared_after_its_confirmation():
    found, study = searched()
    assert found.chosen == BEST
    assert found.learns.verdict == "inside"
    assert found.learns.proposed_warmup == 2
    assert found.ending.unchecked == ""
    assert found.rejected == {}
    assert stages(study) == (8, 10)
    assert [t.stage for t in study.trials[-10:]] == ["stability"] * 10
    runs = [trial.record for trial in study.trials[-10:-8]]
    assert [SPACE.point(run.knobs) for run in runs] == [BEST, BEST_BF16]
    assert [run.loss_run.seed for run in runs] == [FIRST_SEED] * 2


def test_speeds_are_those_of_a_search_without_it():
    with_it, without = searched()[0], searched(conditions=None)[0]
    names = ("chosen", "verdict", "speed", "record", "numbers")
    for name in names:
        assert getattr(with_it, name) == getattr(without, name), name
    assert without.stability == {}


@each("budget", [1, 61, 125, 300, 600, 900, 1500, 2400, 7200])
@each("outcome", ["", "hang", "oom"])
@each("cost_s", [20.0, 1e9])
def test_the_budget_is_kept_whatever_its_runs_do(budget, outcome, cost_s):
    made = runner(outcome=outcome, cost_s=cost_s)
    found, _ = searched(made, float(budget))
    assert found.seconds <= budget


def test_time_is_kept_for_it():
    found, study = searched(budget=4000.0)
    spent = sum(t.record.cost_s for t in study.trials if t.stage != "stability")
    assert spent <= 4000.0 * (1 - BUDGET_SHARE)
    assert found.learns.verdict == "inside"


def test_without_time_it_says_what_to_type():
    found, study = searched(budget=900.0)
    assert stages(study)[1] == 0
    assert (found.ending.unchecked, found.ending.checking_s) == ("no time", 3600.0)


@pytest.mark.parametrize("budget", [300.0, 900.0, 1200.0, 1600.0, 2400.0])
@pytest.mark.parametrize("cost_s", [20.0, 110.0, 200.0])
def test_the_budget_that_is_advised_is_enough_and_for_other_warmups_too(budget, cost_s):
    made, study = runner(cost_s=cost_s), Study(SPACE)
    found = searched(made, budget, study=study)[0]
    longer = found.ending.checking_s or budget
    found = searched(made, longer, study=study)[0]
    assert (found.ending.unchecked, stages(study)[1]) == ("", 10)


@pytest.fixture(scope="module")
def uncut():
    return searched()


@each("kept", range(21))
def test_a_search_goes_on_where_it_was_killed(uncut, kept):
    found, whole = uncut
    resumed = Study(SPACE)
    for trial in whole.trials[:kept]:
        place = trial._asdict()
        for name in ("number", "process", "position"):
            del place[name]
        resumed.add(**place)
    again = searched(study=resumed)[0]
    assert without_trial_numbers(again) == without_trial_numbers(found)
    assert without_numbers(resumed.trials) == without_numbers(whole.trials)


def test_divergence_rejects_the_candidate_and_all_that_learn_as_it_does():
    found, study = searched(runner(nan=(8, 16)))
    assert (found.chosen, found.learns) == (None, None)
    assert list(found.rejected) == [BEST]
    assert found.rejected[BEST].tested.diverged == (3, 0)
    assert found.rejected[BEST].proposed_warmup == 32
    assert stages(study) == (10, 18)


def test_bf16_is_next_where_precision_may_change():
    space = space_of(RECORDS)
    free = Space([k._replace(frozen=False) for k in space.knobs], space.only)
    found, _ = searched(runner(nan=(8, 16)), space=free)
    assert found.chosen == BEST_BF16
    assert found.verdict == "faster"
    assert found.ending.unchecked == ""
    assert list(found.rejected) == [BEST]


def test_a_longer_warmup_is_written_where_it_may_change():
    found, _ = searched(
        runner(nan=(8,)), conditions=CONDITIONS._replace(may_change_warmup=True)
    )
    assert (found.chosen, found.learns.verdict) == (BEST, "diverged")
    assert (found.learns.proposed_warmup, found.rejected) == (16, {})
    found, _ = searched(runner(nan=(8,)))
    assert (found.chosen, found.rejected[BEST].proposed_warmup) == (None, 16)


LONG = Conditions(2000)


def test_divergence_in_the_config_s_own_first_steps_rejects_it():
    found, study = searched(runner(nan=range(2001)), conditions=LONG)
    assert (found.chosen, list(found.rejected)) == (None, [BEST])
    assert found.rejected[BEST].first_steps.diverged == (3, 0)
    assert stages(study) == (10, 12)


def test_divergence_under_a_harsher_warmup_alone_makes_it_unsure():
    found, study = searched(runner(nan=range(2000)), conditions=LONG)
    assert (found.chosen, found.verdict, found.rejected) == (BEST, "inconclusive", {})
    assert found.learns.may_diverge is True
    assert found.learns.first_steps.verdict == "inside"
    assert stages(study) == (8, 12)
    assert searched(conditions=LONG)[0].verdict == "faster"
    assert stages(searched(conditions=LONG)[1]) == (8, 6)


def test_without_time_for_the_first_steps_it_says_what_to_type():
    made, budget = runner(nan=range(2000), cost_s=150.0), 1700.0
    found, study = searched(made, budget, LONG)
    assert (found.chosen, found.verdict) == (BEST, "inconclusive")
    assert stages(study) == (8, 7)
    known = found.ending.unchecked, found.ending.checking_s
    assert known == ("no time for its other runs", 55 * 60.0)
    longer = searched(made, 51 * 60.0, LONG, study=study)[0]
    assert longer.ending.unchecked == ""
    assert longer.learns.first_steps.verdict == "inside"


def test_outside_is_said_and_not_rejected():
    found, _ = searched(runner(by=0.5))
    assert found.chosen == BEST
    assert found.learns.verdict == "outside"
    assert found.learns.proposed_warmup is None


@pytest.mark.parametrize(("outcome", "count"), [("oom", 1), ("launch", 2)])
def test_runs_that_fail_are_not_tried_for_ever(outcome, count):
    found, study = searched(runner(outcome=outcome))
    assert stages(study) == (8, count)
    assert found.ending.unchecked == f"a run ended with `{outcome}`: as told"
    assert found.chosen == BEST


def test_a_search_that_is_stopped_says_so():
    class Stopped(Learning):
        def train_for_losses(self, knobs, loss_run, deadline_s):
            if loss_run.seed > FIRST_SEED:
                raise KeyboardInterrupt
            return super().train_for_losses(knobs, loss_run, deadline_s)

    found, study = searched(Stopped)
    assert (found.chosen, stages(study)[1]) == (BEST, 2)
    assert found.learns.verdict == "inconclusive"
    assert found.ending.unchecked == "stopped; the same command continues"


def test_a_refusal_is_said():
    found, study = searched(conditions=CONDITIONS._replace(refusal="one of 8 ranks"))
    assert (stages(study)[1], found.ending.unchecked) == (0, "one of 8 ranks")


def test_bf16_has_nothing_to_compare():
    in_bf16 = [ran(BF16, 90, step_ms=STEP_MS), ran(BEST_BF16, 120, step_ms=STEP_MS)]
    order = InOrder(BEST_BF16)
    found, study = searched(records=in_bf16, given=BF16, strategy=order)
    assert (found.chosen, found.ending.unchecked) == (BEST_BF16, "")
    assert stages(study)[1] == 0


RECIPE = Knob("fp8_recipe", ("tensorwise", "rowwise"), "fp8_recipe")
WITH_RECIPE = Space([*SPACE.knobs[:3], SPACE.knobs[3], RECIPE])


def with_recipe(point, index=0):
    return (*point, index)


ROWWISE = with_recipe(BEST, 1)
RECIPES = [
    ran(GIVEN, speed, step_ms=STEP_MS)._replace(knobs=WITH_RECIPE.values(point))
    for point, speed in (
        (with_recipe(GIVEN), 100),
        (with_recipe(BF16), 90),
        (with_recipe(BEST), 150),
        (ROWWISE, 170),
        (with_recipe(BEST_BF16), 120),
    )
]


def recipes_searched(made=Learning, tried=None, little=(), **how):
    points = [WITH_RECIPE.point(record.knobs) for record in RECIPES]
    space, given = Space(WITH_RECIPE.knobs, points), with_recipe(GIVEN)
    order = InOrder(*tried or (with_recipe(BEST), ROWWISE), little=little)
    found, study = searched(
        made, records=RECIPES, space=space, given=given, strategy=order, **how
    )
    return found, [finding.code for finding in found.findings], study


def test_a_recipe_is_chosen_after_its_losses_were_compared():
    found, codes, study = recipes_searched()
    assert found.chosen == ROWWISE
    assert found.verdict == "faster"
    assert found.learns.verdict == "inside"
    assert "unproven" not in codes
    assert stages(study)[1] > 0


def order(study):
    return [stage for stage, _ in groupby(trial.stage for trial in study.trials)]


def test_a_recipe_is_compared_before_settings_that_gain_little():
    best = with_recipe(BEST)
    found, _, study = recipes_searched(tried=(ROWWISE, best), little=(best,))
    assert order(study) == ["baseline", "search", "stability", "search", "confirm"]
    assert (found.chosen, found.learns.verdict) == (ROWWISE, "inside")
    same, _, later = recipes_searched(tried=(ROWWISE, best))
    assert order(later) == ["baseline", "search", "confirm", "stability"]
    assert same.chosen == ROWWISE


def test_the_config_s_own_recipe_is_compared_at_the_end():
    best = with_recipe(BEST)
    _, _, study = recipes_searched(tried=(best, ROWWISE), little=(ROWWISE,))
    first = order(study)[:3]
    assert first == ["baseline", "search", "confirm"]


def test_a_recipe_that_leaves_the_spread_is_not_chosen():
    class Worse(Learning):
        def train_for_losses(self, knobs, loss_run, deadline_s):
            self.by = 0.5 * (knobs.get("fp8_recipe") == "rowwise")
            return super().train_for_losses(knobs, loss_run, deadline_s)

    found, _, study = recipes_searched(Worse)
    assert (found.chosen, found.learns.verdict) == (with_recipe(BEST), "inside")
    assert list(found.rejected) == [ROWWISE]
    runs = [trial.record for trial in study.trials if trial.stage == "stability"]
    in_bf16 = [record for record in runs if "fp8_recipe" not in record.knobs]
    own = [record for record in runs if record.knobs.get("fp8_recipe") == "tensorwise"]
    seeds = {record.loss_run for record in in_bf16}
    assert len(in_bf16) == len(seeds), "each run in bf16 serves both recipes"
    assert {record.loss_run for record in own} <= seeds


def test_a_search_without_time_for_losses_answers_with_the_config_s_recipe():
    found, codes, study = recipes_searched(budget=240.0)
    assert stages(study)[1] == 0
    assert found.chosen == with_recipe(BEST)
    assert "unproven" in codes


def test_where_no_losses_can_be_compared_a_recipe_leaves_the_verdict_open():
    found, codes, _ = recipes_searched(conditions=Conditions(0, refusal="one rank"))
    assert (found.chosen, found.verdict) == (ROWWISE, "inconclusive")
    assert (found.ending.unchecked, "unproven" in codes) == ("one rank", False)


def test_fp8_for_a_bf16_config_is_a_change_too():
    space = Space([*WITH_RECIPE.knobs[:3], WITH_RECIPE.knobs[3]._replace(frozen=False)])
    search = History(space, BF16, tried(GIVEN, BF16, GIVEN, BF16))
    assert search.choosing(proven_only=True).ranked == [BF16]
    found = decide(search, 60.0)
    codes = [finding.code for finding in found.findings]
    assert (found.chosen, found.verdict) == (GIVEN, "inconclusive")
    assert "losses-not-compared" in codes


def tried(*points):
    speeds = {GIVEN: 130, BF16: 100}
    return trials(*(("confirm", ran(point, speeds[point])) for point in points))
