"""Searches whose trials run at the same time, in simulated time."""

from collections import defaultdict

from fp8tune.runners.replay import Replay
from fp8tune.search.loop import Search
from fp8tune.search.pool import Peer
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.trials.order import PlannedTrial
from fp8tune.trials.record import Record
from fp8tune.trials.trial import seconds_spent
from tests.each import each
from tests.search.losses import test_stage as stage
from tests.search.tries import (
    BEST,
    GIVEN,
    OTHER,
    SPACE,
    InOrder,
    planned,
    ran,
    space_of,
    trials,
)
from tests.support.landscape import estimate, world
from tests.support.side_by_side import Simulated

WORKERS = 8
SEEDS = (700_002, 700_005)


def exact(place):
    """Records of a landscape without noise."""
    for point, truth in place.truth.items():
        cost = truth.start_s + truth.compile_s + 15 * truth.micro_s
        peak, knobs = truth.peak_gib, place.space.values(point)
        if truth.outcome != "ok":
            yield Record(knobs, truth.outcome, cost_s=cost)
            continue
        speed, steps = truth.tokens_per_second, (1e3 * truth.micro_s,) * 15
        yield Record(knobs, "ok", speed, steps, peak, peak * 1.05, cost)


def searched(seed, workers):
    """Search a landscape; return it, the answer and the trials."""
    place = world(seed)
    study = Study(place.space)
    runner = Replay(exact(place), place.space, card_gib=place.capacity_gib)
    prior = estimate(place, 0.25)
    strategy = Strategy(study, place.given, prior, place.capacity_gib)
    pool = Simulated(study, runner, workers) if workers else Peer(study, runner)
    search = Search(place.space, place.given, pool, strategy, study, 7200.0)
    return place, search.run(), study.trials


def spans(trials):
    """When trials began and ended [s]."""
    return [(trial.at_s, trial.at_s + trial.record.cost_s) for trial in trials]


def together(trials):
    """How many of some trials ran at the same time, at most."""
    begun = spans(trials)
    return max(sum(a <= at < b for a, b in begun) for at, _ in begun)


def confirming_s(trials):
    """How long some trials took together [s]."""
    begun = spans(trials)
    return max(end for _, end in begun) - min(at for at, _ in begun)


@each("seed", SEEDS)
def test_eight_workers_measure_different_settings_and_find_the_same_speed(seed):
    place, found, trials = searched(seed, WORKERS)
    first = [t for t in trials if t.stage in ("baseline", "search")]
    tried = [place.space.point(t.record.knobs) for t in first]
    assert len(set(tried)) == len(tried)
    assert together(first) > WORKERS / 2
    _, alone, _ = searched(seed, 0)
    speeds = [place.truth[each.chosen].tokens_per_second for each in (found, alone)]
    assert speeds[0] >= 0.999 * speeds[1]


def test_workers_confirm_at_the_same_time_each_in_pairs_of_its_own():
    """The best and the baseline follow each other on each worker that runs them."""
    place, found, trials = searched(SEEDS[0], WORKERS)
    again = [trial for trial in trials if trial.stage == "confirm"]
    others = [trial for trial in trials if trial.stage != "confirm"]
    assert together(again) > WORKERS / 2
    assert max(end for _, end in spans(others)) <= min(at for at, _ in spans(again))
    by_worker = defaultdict(list)
    for trial in again:
        by_worker[trial.worker].append(place.space.point(trial.record.knobs))
    pair = {found.chosen, place.given}
    assert [set(points[:2]) for points in by_worker.values()] == [pair] * WORKERS
    assert found.pairs >= WORKERS
    _, alone, trials = searched(SEEDS[0], 1)
    alone_again = [trial for trial in trials if trial.stage == "confirm"]
    assert confirming_s(again) < confirming_s(alone_again)
    assert found.verdict == alone.verdict


@each(
    ("begun", "spent"),
    [
        ([(0, 0, 10), (0, 0, 8), (0, 8, 7)], 15),
        ([(0, 0, 10), (0, 20, 10)], 20),  # the second waited for a worker
        ([(0, 0, 10), (0, 20, 10), (1, 20, 10)], 30),  # and a search went on
        ([(0, None, 10), (1, 10, 5), (1, 10, 5)], 15),
    ],
)
def test_the_time_of_trials_that_ran_at_the_same_time_counts_once(begun, spent):
    fields = [{"process": n, "at_s": at, "cost_s": s} for n, at, s in begun]
    pairs = [("search", ran(BEST, more=more)) for more in fields]
    assert seconds_spent(trials(*pairs)) == spent


class Once(InOrder):
    """Proposes each point once, also while others run."""

    def propose(self, *_):
        if not self.points:
            return None
        point, *self.points = self.points
        return PlannedTrial(point, "search", "in order")


def test_loss_runs_are_at_the_same_time():
    space = space_of(stage.RECORDS)
    study, runner = Study(space), stage.Learning(stage.RECORDS, space)
    search = Search(
        space,
        GIVEN,
        Simulated(study, runner, WORKERS),
        Once(BEST, OTHER),
        study,
        7200.0,
        conditions=stage.CONDITIONS,
    )
    found = search.run()
    losses = [trial for trial in study.trials if trial.stage == "stability"]
    assert (found.chosen, found.learns.verdict) == (BEST, "inside")
    assert together(losses) > 1


def proposed(sampler, told=(), running=1):
    """Tell a study some trials; return the proposals while more and more run."""
    study = Study(SPACE)
    strategy = Strategy(study, GIVEN, card_gib=80.0, sampler=sampler)
    for record in told:
        study.add("search", record)
    points = [] if told else [GIVEN]
    while len(points) < running:
        for point in points[-1:]:
            study.ask(planned(point))
        points.append(strategy.propose(study.trials).point)
    return points


@each("sampler", ("auto", "tpe", "random"))
def test_proposals_differ_before_anything_has_run(sampler):
    assert len(set(proposed(sampler, running=6))) == 6
