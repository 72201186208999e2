"""What is predicted of many GPUs' collectives decides nothing by itself."""

import math

import pytest

from fp8tune.search.confirm import again
from fp8tune.search.outcome import decide
from fp8tune.search.statistics import communication_error
from fp8tune.trials.trial import Trial
from tests.search.tries import BEST, GIVEN, SPACE, TWIN, but, confirmed, ran, trials

STEP_MS = 1000.0


def many(point, share, speed=10_000.0, error=1.0):
    """A rank of that speed, with collectives that take a share of a step."""
    added = STEP_MS * share / (1 - share)
    ends = [(1 + error) * added, (1 - error) * added]
    more = {"communication_ms": added, "communication_ends_ms": ends}
    return ran(point, speed * (1 - share), step_ms=(STEP_MS,), more=more)


def found(given, best):
    return decide(SPACE, GIVEN, tried(given, best), 99.0)


def tried(given, best):
    shares = {GIVEN: given, BEST: best}
    order = (BEST, GIVEN, GIVEN, BEST) * 2
    ends = confirmed(*(many(point, *shares[point]) for point in order))
    begin = [("baseline", many(GIVEN, *given)), ("search", many(BEST, *best))]
    return trials(*begin, *ends)


@pytest.mark.parametrize(
    ("given", "best", "verdict"),
    [
        ((0.0,), (0.0, 11_000), "faster"),
        ((0.3,), (0.3, 11_000), "faster"),  # the same for both
        ((0.3,), (0.03,), "inconclusive"),  # by prediction alone
        ((0.3, 10_000, 0.05), (0.03, 10_000, 0.05), "faster"),  # which is good
        ((0.1,), (0.03, 12_000), "faster"),  # and without it
        ((0.1, 12_000), (0.03,), "same"),
        ((0.03,), (0.3,), "inconclusive"),
    ],
)
def test_a_verdict_is_sure_if_no_prediction_turns_it(given, best, verdict):
    said = found(given, best)
    assert said.verdict == verdict
    decides = said.find("communication-decides")
    assert bool(decides) == (verdict == "inconclusive")
    assert decides is None or decides.facts["within"] > 0.2


def network(added, *ends):
    """What a record tells of its collectives."""
    return {"communication_ms": added, "communication_ends_ms": list(ends)}


def runs_to_the_end(more):
    """How often settings are measured again; the given one communicates a lot."""
    speeds = {GIVEN: (0.3,), BEST: (0.03, 8_000), TWIN: (0.3, 9_000)}
    known: list[Trial] = []
    points = [*speeds]
    while points and len(known) < 60:
        record = many(points[0], *speeds.get(points[0], (0.03, 7_000)))
        stage = "search" if len(known) < len(speeds) else "confirm"
        known.append(Trial(len(known), stage, but(record, **more)))
        points = points[1:] or list(filter(None, [again(SPACE, GIVEN, known)]))
    return len(known)


def test_no_more_runs_are_made_for_what_is_predicted():
    assert runs_to_the_end({}) == runs_to_the_end({"communication_ms": None}) < 60


@pytest.mark.parametrize(
    ("mine", "theirs", "left"),
    [
        ({}, {}, 0.0),
        (network(500.0, 900.0, 300.0), network(500.0, 900.0, 300.0), 0.0),
        (network(500.0), network(500.0), math.log(2)),  # each by itself
        (network(500.0), network(500.0, 900.0), math.log(2)),
        (network(500.0, "x"), network(500.0, 500.0), math.log(2)),
        (network(500.0, math.nan), network(500.0, 500.0), math.log(2)),
        (network(1000.0), {}, math.log(2)),
        (network(1000.0), network(None), math.log(2)),
        (network("x"), network(-1), 0.0),
        (
            network(1000.0, 3000.0, 500.0),
            network(250.0, 500.0, 200.0),
            math.log(4000 / 1500) - math.log(2000 / 1250),
        ),
    ],
)
def test_what_another_network_leaves_open(mine, theirs, left):
    one, other = (ran(GIVEN, step_ms=[STEP_MS], **more) for more in (mine, theirs))
    assert communication_error(one, other) == pytest.approx(left)
    assert communication_error(other, one) == pytest.approx(left)
