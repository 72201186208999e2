"""The loop: order, budget, faults, interruption, resumption."""

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.search.answer.answer import LARGER_BUDGET, SAME_COMMAND
from fp8tune.search.loop import Search
from fp8tune.search.pool import Peer
from fp8tune.search.study import Study
from fp8tune.trials.order import PlannedTrial
from fp8tune.trials.runner import CONFIRMED_S
from fp8tune.trials.space import Space
from tests.each import each
from tests.search.tries import (
    BEST,
    BEST_BF16,
    BF16,
    GIVEN,
    KNOBS,
    OTHER,
    SPACE,
    InOrder,
    ran,
    space_of,
)

RECORDS = [
    ran(GIVEN, 100),
    ran(BF16, 90),
    ran(BEST, 150),
    ran(BEST_BF16, 120),
    ran(OTHER, outcome="oom", cost_s=30.0),
]


def searched(
    records=RECORDS,
    budget=7200.0,
    points=(OTHER, BEST),
    study=None,
    runner=Replay,
    strategy=None,
    **more,
):
    """Search, maybe with a study that is there; the answer, and the new stages."""
    space, study = space_of(records), study or Study(SPACE)
    before, replay = len(study.trials), runner(records, space)
    for trial in study.trials:
        if trial.record.ok:
            replay.skip(space.point(trial.record.knobs))
    strategy = strategy or InOrder(*points)
    peer = Peer(study, replay)
    search = Search(space, GIVEN, peer, strategy, study, budget, **more)
    found, new = search.run(), study.trials[before:]
    return search, found, [(t.stage, space.point(t.record.knobs)) for t in new]


def test_confirmations_take_their_time():
    least = []

    class Asked(Replay):
        def run(self, knobs, limits):
            least.append(limits.least_s)
            return super().run(knobs, limits)

    _, _, stages = searched(runner=Asked)
    assert least == [CONFIRMED_S * (stage == "confirm") for stage, _ in stages]


LAST = (0, 1, 1, 1)


class WithLast(InOrder):
    """Has a setting left that is worth a trial before the config is called the best."""

    def propose_untested(self, trials):
        tried = any(trial.record.knobs == SPACE.values(LAST) for trial in trials)
        return None if tried else PlannedTrial(LAST, "search", "left")


@each(
    ("budget", "again", "end"),
    [
        (7200.0, 100, [("search", LAST), ("confirm", LAST)]),
        (7200.0, 80, []),  # the machine became slower: nothing to compare it with
        (700.0, 100, []),  # it could not be repeated as often as the config
    ],
)
def test_what_is_left_is_tried_before_the_config_is_the_best(budget, again, end):
    given = [ran(GIVEN, speed) for speed in (100, *[again] * 9)]
    records = [*given, ran(BF16, 90), ran(BEST, 50), ran(LAST, 95)]
    _, found, stages = searched(records, budget, strategy=WithLast(BEST))
    assert (found.chosen, found.verdict) == (GIVEN, "same")
    assert [stage for stage in stages if stage[1] == LAST] == end


WRONG = {"message": "BadData: the id 600; set the size", "error": "BadData"}
SHORT = {"message": "ShortData: less than 8 sequences", "error": "ShortData"}


@pytest.mark.parametrize(
    ("failing", "more", "tried"),
    [
        (GIVEN, WRONG, 1),
        (BEST, WRONG, 3),
        (GIVEN, SHORT, 3),
        (BEST, SHORT, 4),
    ],
)
def test_what_is_wrong_with_all_data_ends_the_search(failing, more, tried):
    """What a micro-batch is too large for does not."""
    records = [r for r in RECORDS if r.knobs != SPACE.values(failing)]
    records.append(ran(failing, outcome="user", cost_s=5.0, more=more))
    search, found, stages = searched(records)
    assert len([stage for stage, _ in stages if stage != "confirm"]) == tried
    wrong = found.find("wrong-data")
    assert (wrong and dict(wrong.facts)) == (
        {"why": "the id 600; set the size"} if more is WRONG else None
    )
    if more is WRONG:
        assert search.run().trials == tried, "nor does it go on from there"


@each("budget", [1, 10, 61, 90, 125, 200, 300, 400, 500, 1000])
@each("outcome", ["ok", "hang", "launch", "compile"])
@each("never", [(), (GIVEN,), (BEST,), (GIVEN, BF16, BEST, OTHER)])
def test_the_budget_is_kept_whatever_trials_do(budget, outcome, never):
    records = [
        r for r in RECORDS if r.knobs not in [Space(KNOBS).values(p) for p in never]
    ]
    records += [ran(point, outcome=outcome, cost_s=1e9) for point in never]
    _, found, _ = searched(records, float(budget))
    assert found.seconds <= budget


def test_time_is_kept_for_the_confirmation():
    _, found, stages = searched(budget=500.0, points=(BEST, OTHER, *[BEST] * 9))
    assert {stage for stage, _ in stages[1:-2]} == {"search"}
    assert stages[-2:] == [("confirm", BEST), ("confirm", GIVEN)]
    assert (found.chosen, found.ending.next_step) == (BEST, LARGER_BUDGET)


def test_no_time_is_kept_if_two_pairs_of_runs_take_over_half_of_the_budget():
    _, found, stages = searched(budget=300.0, points=(BEST, OTHER, BF16))
    assert stages[1:4] == [("search", BEST), ("search", OTHER), ("search", BF16)]
    assert (found.chosen, found.verdict) == (BEST, "inconclusive")


def test_a_given_one_without_records_is_not_tried():
    _, found, stages = searched(RECORDS[1:])
    assert stages[0] == ("search", OTHER)
    assert (found.chosen, found.verdict) == (BEST, "inconclusive")
    assert found.speed.baseline is None


@pytest.mark.parametrize("outcome", ["oom", "hang", "nan"])
def test_the_twin_of_what_fails_is_not_tried_at_first(outcome):
    _, _, stages = searched([ran(GIVEN, outcome=outcome), *RECORDS[1:]])
    assert ("bf16-baseline", BF16) not in stages
    assert ("confirm", BEST_BF16) in stages


def test_ctrl_c_ends_with_what_is_known():
    class Interrupted(Replay):
        def run(self, knobs, limits):
            if knobs["train.batch_size"] == 4:
                raise KeyboardInterrupt
            return super().run(knobs, limits)

    search, found, stages = searched(points=(OTHER, BEST), runner=Interrupted)
    assert search.interrupted
    assert (found.chosen, found.ending.next_step) == (GIVEN, SAME_COMMAND)
    assert stages[-1] == ("search", OTHER)
    search.study.refresh()
    assert search.study.running == {}, "the trial is given back at once"


def test_a_larger_budget_goes_on_with_the_search():
    study = Study(SPACE)
    assert ("confirm", GIVEN) in searched(budget=300.0, points=[OTHER], study=study)[2]
    assert ("search", BEST) not in searched(budget=300.0, study=study)[2]
    more = searched(study=study)[2]
    assert more[:2] == [("search", BEST), ("confirm", BEST)]


def test_a_config_that_a_small_budget_cut_short_is_tried_again():
    slow = [ran(GIVEN, 100, cost_s=500.0), ran(BEST, 150)]
    study = Study(SPACE)
    again, none = [("baseline", GIVEN)], []
    for budget, begins in ((60.0, again), (60.0, none), (7200.0, again)):
        assert searched(slow, budget, (), study)[2][:1] == begins
    assert [trial.record.outcome for trial in study.trials[:2]] == ["hang", "ok"]


def test_what_a_small_budget_cut_short_is_chosen_after_all():
    """Given up while it compiled, it is tried again and counts by what it does then."""
    study = Study(SPACE)
    late = ran(BEST, outcome="compile", message="given up in stage compile")
    study.add("search", late, budget_s=600.0)
    assert searched(study=study)[1].chosen == BEST


@pytest.mark.parametrize(
    ("outcome", "tried"),
    [("launch", 2), ("throttled", 2), ("shared", 2), ("hang", 1), ("oom", 1)],
)
def test_a_config_that_failed_of_what_may_pass_is_tried_once_more(outcome, tried):
    failed = ran(GIVEN, outcome=outcome)
    _, found, stages = searched([failed, *RECORDS])
    assert stages.count(("baseline", GIVEN)) == tried
    assert found.chosen == BEST
