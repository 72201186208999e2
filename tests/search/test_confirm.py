"""What is measured again at the end, and when that is enough."""

import pytest

from fp8tune.search.confirm import again, settings
from fp8tune.search.space import Space
from tests.search.tries import BEST, GIVEN, KNOBS, OTHER, SPACE, TWIN, ran, trials

BEST_TWIN = SPACE.twin(BEST)
NEAR = (3, 1, 1, 1)


def order(found, speeds, most=40):
    """The points that are asked for, where each runs at its speeds in turn."""
    asked, tried = [], list(found)
    while len(asked) < most:
        point = again(SPACE, GIVEN, tried)
        if point is None:
            return asked
        turn = asked.count(point)
        asked.append(point)
        values = speeds[point]
        record = values[turn % len(values)]
        tried += [t._replace(number=len(tried)) for t in trials(("confirm", record))]
    raise AssertionError("it never ends")


FOUND = trials(
    ("given", ran(GIVEN, 100)),
    ("twin", ran(TWIN, 90)),
    ("search", ran(NEAR, 148)),
    ("search", ran(BEST, 150)),
    ("search", ran(OTHER, 130)),
)
STEADY = {
    point: [ran(point, speed)]
    for point, speed in ((GIVEN, 100), (BEST, 150), (BEST_TWIN, 120), (NEAR, 148))
}


def test_the_best_ones_twin_the_given_one_and_what_is_near_in_turn():
    once = [BEST, BEST_TWIN, GIVEN, NEAR]
    assert settings(SPACE, GIVEN, FOUND) == once
    assert order(FOUND, STEADY) == [*once, *reversed(once)]


def test_what_fails_for_good_is_not_asked_for_again():
    speeds = STEADY | {BEST_TWIN: [ran(BEST_TWIN, outcome="oom")]}
    asked = order(FOUND, speeds)
    assert asked.count(BEST_TWIN) == 1
    assert asked.count(BEST) == 2


def test_more_runs_while_it_is_unclear_which_is_faster():
    shaky = {
        GIVEN: [ran(GIVEN, speed) for speed in (100, 103, 101)],
        BEST: [ran(BEST, speed) for speed in (101, 107, 103.5)],
        BEST_TWIN: [ran(BEST_TWIN, 80)],
    }
    found = trials(("given", ran(GIVEN, 100)), ("search", ran(BEST, 104)))
    asked = order(found, shaky)
    assert len(asked) > 6
    assert asked.count(BEST) <= 6
    assert abs(asked.count(BEST) - asked.count(GIVEN)) <= 1
    assert asked.count(BEST_TWIN) == 2


@pytest.mark.parametrize(
    "found",
    [
        [],
        trials(("given", ran(GIVEN, outcome="oom"))),
        trials(("twin", ran(TWIN))),
    ],
)
def test_nothing_to_confirm(found):
    assert again(SPACE, GIVEN, found) is None


def test_the_given_one_alone_needs_no_confirmation():
    space = Space(KNOBS[:3])
    found = trials(("given", ran(GIVEN[:3], space=space)), space=space)
    assert again(space, GIVEN[:3], found) is None


def test_a_given_one_that_hung_has_a_second_chance():
    found = trials(("given", ran(GIVEN, outcome="hang")), ("search", ran(BEST, 150)))
    assert GIVEN in settings(SPACE, GIVEN, found)
    found = trials(("given", ran(GIVEN, outcome="oom")), ("search", ran(BEST, 150)))
    assert GIVEN not in settings(SPACE, GIVEN, found)
