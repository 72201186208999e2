"""The sampler in a search: where it goes, what it never does, when it ends."""

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.search.loop import Search
from fp8tune.search.pool import Peer
from fp8tune.search.prior import CORRECTED
from fp8tune.search.sampler import Expected
from fp8tune.search.sampler.memory import PRIOR_ERROR
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.trials.space import Knob, Space
from tests.search.tries import BF16, GIVEN, KNOBS, SPACE, ran
from tests.support.landscape import estimate, world

SEEDS = range(7000, 7005)


def searched(place, prior=None, card_gib=0.0, records=None):
    """The study and the answer of a search on a landscape."""
    space, study = place.space, Study(place.space)
    runner = Replay(place.records() if records is None else records, space)
    strategy = Strategy(study, place.given, prior, card_gib)
    budget_s = 7200.0
    found = Search(
        space, place.given, Peer(study, runner), strategy, study, budget_s
    ).run()
    return study, found


def history(place):
    """The trials of a search on a landscape."""
    return searched(place)[0].trials


def proposed(tried, space=SPACE, given=GIVEN, prior=None):
    """What the sampler proposes after trials, given as (stage, record)."""
    study = Study(space)
    for stage, record in tried:
        study.add(stage, record)
    return Strategy(study, given, prior).propose(study.trials)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_landscape(seed):
    place = world(seed)
    found = history(place)
    search = [t for t in found if t.stage == "search"]
    points = [place.space.point(t.record.knobs) for t in search]
    assert len(set(points)) == len(points), "no setting is searched twice"
    assert all(place.space.allows(point, place.given) for point in points)
    limits = {}
    for trial, point in zip(search, points, strict=True):
        cell, batch = place.space.cell(point), place.space.batch(point)
        assert batch < limits.get(cell, 1e9), "larger than what had no memory"
        if trial.record.outcome == "oom":
            limits[cell] = batch
    assert len(limits) <= 5


def test_what_may_not_fit_is_tried_before_a_search_ends():
    """Where the best that is left is too risky, the next best may not be."""
    place = world(700505)
    found = history(place)
    points = [place.space.point(t.record.knobs) for t in found if t.record.ok]
    ours = [point for point in points if place.space.allows(point, place.given)]
    assert max(map(place.fraction, ours)) >= 0.99


SMALL = {"peak_gib": 50.0, "reserved_gib": 55.0, "more": {"capacity_gib": 139.8}}


def test_the_few_settings_of_a_small_space_are_all_tried():
    """However sure three of four make the model that the last one is no better."""
    speeds = {(0, 1): 1000, (0, 0): 1100, (1, 0): 1250, (1, 1): 2000}
    knobs = Knob("train.batch_size", (8, 16), "micro_batch"), KNOBS[1]
    space = Space(knobs, speeds)
    records = [ran(p, speed, space=space, **SMALL) for p, speed in speeds.items()]
    study, runner = Study(space), Replay(records, space)
    strategy = Strategy(study, (0, 1))
    found = Search(space, (0, 1), Peer(study, runner), strategy, study, 7200.0).run()
    assert found.chosen == (1, 1)


@pytest.mark.parametrize("seed", [7001, 7008, 7011])
def test_retries_of_the_given_setting_do_not_stop_the_search(seed):
    """Nor do they keep it from larger batches, where the GPU is far from full."""
    place = world(seed)
    mine = place.space.values(place.given)
    retried = [
        r._replace(alloc_retries=3) if r.knobs == mine else r for r in place.records()
    ]
    with_them, without = (searched(place, records=each) for each in (retried, None))
    assert place.fraction(with_them[1].chosen) >= place.fraction(without[1].chosen)


TOO_HIGH = 1.4


@pytest.mark.parametrize(
    ("error", "peaks"), [(PRIOR_ERROR, True), (CORRECTED, True), (PRIOR_ERROR, False)]
)
@pytest.mark.parametrize("seed", [7000, 7004, 7007])
def test_an_estimate_of_memory_that_is_much_too_high_hides_nothing(seed, error, peaks):
    """However sure it is; trials of the given cell do not tell, or none does."""
    place = world(seed)
    space, mine = place.space, place.space.cell(place.given)

    def expect(point):
        high = 1.0 if peaks and space.cell(point) == mine else TOO_HIGH
        return Expected(high * place.truth[point].peak_gib, 0.0, error)

    best = max(space.points(place.given), key=place.fraction)
    assert expect(best).peak_gib > place.capacity_gib
    records = [r if peaks else r._replace(peak_gib=0.0) for r in place.records()]
    _, found = searched(place, expect, place.capacity_gib, records)
    assert place.fraction(found.chosen) >= 0.97


def test_estimates_are_asked_for_once():
    place = world(7000)
    asked = []
    expect = estimate(place, 0.1)
    study = Study(place.space)
    strategy = Strategy(study, place.given, lambda p: asked.append(p) or expect(p))
    study.add("baseline", next(place.records()))
    for _ in range(2):
        strategy.propose(study.trials)
    assert len(asked) == len(set(asked))


def test_where_nothing_runs_it_goes_on_with_what_is_likeliest_to():
    proposal = proposed([("baseline", ran(GIVEN, outcome="oom"))])
    assert proposal.reason == "nothing has run yet"
    assert SPACE.batch(proposal.point) == 1 or proposal.point[1:3] != GIVEN[1:3]


def test_what_losses_reject_is_not_proposed():
    study, batch = Study(SPACE), SPACE.batch(GIVEN)
    study.add("baseline", ran(GIVEN, 100, peak_gib=10.0))
    strategy = Strategy(study, GIVEN)
    free = strategy.propose(study.trials)
    same = strategy.propose(study.trials, lambda p: SPACE.batch(p) != batch)
    assert SPACE.batch(free.point) != batch == SPACE.batch(same.point)
    assert strategy.propose(study.trials, lambda _: True) is None


def test_the_end():
    points = SPACE.points(GIVEN)
    assert proposed([("search", ran(p, 100, peak_gib=10.0)) for p in points]) is None


def test_only_the_bf16_baseline_has_run():
    proposal = proposed([("bf16-baseline", ran(BF16, peak_gib=20.0))])
    assert SPACE.allows(proposal.point, GIVEN)
