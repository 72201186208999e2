"""What is measured again at the end, and when that is enough."""

import pytest

from fp8tune.search.confirm import MOST, again, settings
from fp8tune.search.history import History
from fp8tune.search.outcome import decide
from fp8tune.trials.space import Space
from tests.search.tries import (
    BEST,
    BF16,
    GIVEN,
    KNOBS,
    OTHER,
    PRECISION,
    SPACE,
    history,
    history_of,
    ran,
    trials,
)

BEST_BF16 = SPACE.in_bf16(BEST)
NEAR = (3, 1, 1, 1)
NEAR_BF16 = SPACE.in_bf16(NEAR)
OTHER_BF16 = SPACE.in_bf16(OTHER)


def order(found, speeds, most=40):
    """The points that are asked for, where each runs at its speeds in turn."""
    asked, tried = [], list(found)
    while len(asked) < most:
        point = again(history_of(tried))
        if point is None:
            return asked
        turn = asked.count(point)
        asked.append(point)
        values = speeds[point]
        record = values[turn % len(values)]
        tried += [t._replace(position=len(tried)) for t in trials(("confirm", record))]
    raise AssertionError("it never ends")


FOUND = trials(
    ("baseline", ran(GIVEN, 100)),
    ("bf16-baseline", ran(BF16, 90)),
    ("search", ran(NEAR, 148)),
    ("search", ran(BEST, 150)),
    ("search", ran(OTHER, 130)),
)
STEADY = {
    point: [ran(point, speed)]
    for point, speed in (
        (GIVEN, 100),
        (BF16, 90),
        (BEST, 150),
        (BEST_BF16, 120),
        (NEAR, 148),
        (NEAR_BF16, 110),
    )
}


def test_the_best_ones_and_the_baseline_in_turn_and_then_fp8_and_bf16():
    """The verdict comes first; then bf16 looks for its best batch."""
    once = [BEST, GIVEN, NEAR]
    assert settings(history_of(FOUND)) == [*once, BEST_BF16]
    asked = order(FOUND, STEADY)
    assert asked == [*once, *once, BEST_BF16, NEAR_BF16, BEST, BEST_BF16]


@pytest.mark.parametrize(
    ("bf16", "least", "most"), [((120, 124, 117), 2, 2), ((149, 152, 148), 4, 8)]
)
def test_fp8_and_bf16_run_in_turns_until_it_is_clear_which_is_faster(bf16, least, most):
    speeds = STEADY | {BEST_BF16: [ran(BEST_BF16, speed) for speed in bf16]}
    asked = order([t for t in FOUND if t.record.tokens_per_second != 148], speeds)
    assert least <= asked.count(BEST_BF16) <= most
    assert abs(asked.count(BEST_BF16) - asked.count(BEST)) <= 1


def test_what_fails_for_good_is_not_asked_for_again():
    speeds = STEADY | {BEST_BF16: [ran(BEST_BF16, outcome="oom")]}
    asked = order(FOUND, speeds)
    assert asked.count(BEST_BF16) == 1
    assert asked[asked.index(BEST_BF16) + 1] == BF16  # bf16 at another batch


@pytest.mark.parametrize(
    ("best", "given", "wanted"),
    [
        (110, 100, True),  # the best one was lucky, and so it is the other's turn
        (129, 110, False),  # no more than others have changed by
        (75, 50, True),  # all have become slower, nobody knows when
    ],
)
def test_what_the_search_saw_faster_than_the_best_now_is(best, given, wanted):
    found = [trial for trial in FOUND if trial.record.tokens_per_second != 148]
    now = {BEST: [ran(BEST, best)], GIVEN: [ran(GIVEN, given)]}
    now |= {OTHER: [ran(OTHER, 131)], OTHER_BF16: [ran(OTHER_BF16, 80)]}
    asked = order(found, STEADY | now)
    assert (OTHER in asked) == wanted
    if wanted:
        place = asked.index(OTHER)
        # in turn, so that no change between two runs hits both of one
        assert asked[place : place + 3] == [OTHER, GIVEN, OTHER]
        assert GIVEN in asked[place - 2 : place]


def test_a_larger_budget_confirms_all_anew():
    """The baseline ran another day: those runs say nothing of today's speed."""
    day, later = {"more": {"budget_s": 600.0}}, {"more": {"budget_s": 7200.0}}
    twice = [("confirm", ran(p, 100, **day)) for p in (GIVEN, BF16)] * 2
    first = ("baseline", ran(GIVEN, 100)), ("bf16-baseline", ran(BF16, 90))
    known = (
        *first,
        *twice,
        ("search", ran(BEST, 110)),
        ("confirm", ran(BEST, 97, **later)),
    )
    stages = [*known, ("confirm", ran(BEST_BF16, 80, **later))]
    assert again(history(*stages)) == GIVEN
    stages.append(("confirm", ran(GIVEN, 90, **later)))
    found = decide(history(*stages), 1.0)
    assert (found.speed.chosen.value, found.speed.baseline.value) == (97, 90)


def test_more_runs_while_it_is_unclear_which_is_faster():
    shaky = {
        GIVEN: [ran(GIVEN, speed) for speed in (100, 103, 101)],
        BEST: [ran(BEST, speed) for speed in (102, 108, 104.5)],
        BEST_BF16: [ran(BEST_BF16, 80)],
    }
    first = ("baseline", ran(GIVEN, 100)), ("bf16-baseline", ran(BF16, 75))
    found = trials(*first, ("search", ran(BEST, 104)))
    asked = order(found, shaky)
    assert 6 < len(asked) < 2 * MOST
    assert asked.count(BEST_BF16) == 2
    assert abs(asked.count(BEST) - asked.count(GIVEN)) <= 1


@pytest.mark.parametrize(
    "found",
    [
        [],
        trials(("baseline", ran(GIVEN, outcome="oom"))),
        trials(("bf16-baseline", ran(BF16))),
    ],
)
def test_nothing_to_confirm(found):
    assert again(history_of(found)) is None


def test_the_given_one_alone_needs_no_confirmation():
    space = Space(KNOBS[:3])
    found = trials(("baseline", ran(GIVEN[:3], space=space)), space=space)
    assert again(History(space, GIVEN[:3], found)) is None


def test_a_given_one_that_hung_has_a_second_chance():
    found = trials(("baseline", ran(GIVEN, outcome="hang")), ("search", ran(BEST, 150)))
    assert GIVEN in settings(history_of(found))
    found = trials(("baseline", ran(GIVEN, outcome="oom")), ("search", ran(BEST, 150)))
    assert GIVEN not in settings(history_of(found))


CUT = {"more": {"censored": True}}


def test_what_ended_early_for_one_that_failed_is_measured_in_full():
    found = trials(
        ("baseline", ran(GIVEN, 100)),
        ("search", ran(BEST, 150)),
        ("search", ran(OTHER, 130, **CUT)),
        ("search", ran(NEAR, 90, **CUT)),
    )
    speeds = {GIVEN: [ran(GIVEN, 100)], OTHER: [ran(OTHER, 120)]}
    speeds |= {SPACE.in_bf16(p): [ran(SPACE.in_bf16(p), 80)] for p in (BEST, OTHER)}
    assert OTHER not in order(found, STEADY | speeds)
    asked = order(found, STEADY | speeds | {BEST: [ran(BEST, outcome="nan")]})
    assert [min(asked.count(p), 2) for p in (BEST, OTHER, NEAR)] == [1, 2, 0]


@pytest.mark.parametrize(
    ("first", "now", "least", "most"),
    [
        (ran(OTHER, 92, **CUT), 103, 3, MOST),  # its one run was a bad one
        (ran(OTHER, 93), 103, 3, MOST),
        (ran(OTHER, 93), 93, 1, 1),
        (ran(OTHER, 92, **CUT), 92, 1, 1),
        (ran(OTHER, 85, **CUT), 103, 0, 0),  # no bad run loses as much
        (ran(OTHER, 85), 103, 0, 0),
    ],
)
def test_the_best_of_the_others_runs_once_more_where_one_bad_run_may_explain_it(
    first, now, least, most
):
    found = trials(
        ("baseline", ran(GIVEN, 100)),
        ("bf16-baseline", ran(BF16, 80)),
        ("search", first),
    )
    speeds = {OTHER: [ran(OTHER, now)], OTHER_BF16: [ran(OTHER_BF16, 80)]}
    asked = order(found, {GIVEN: [ran(GIVEN, 100)], BF16: [ran(BF16, 80)]} | speeds)
    assert least <= asked.count(OTHER) <= most


def test_only_one_of_the_others_runs_once_more():
    """The better one by its bound."""
    found = trials(
        ("baseline", ran(GIVEN, 100)),
        ("search", ran(OTHER, 92, **CUT)),
        ("search", ran(NEAR, 93, **CUT)),
        ("search", ran(BEST, 91)),
    )
    slower = {point: [ran(point, 93)] for point in (OTHER, NEAR, BEST)}
    asked = order(found, STEADY | slower)
    assert [asked.count(point) for point in (OTHER, NEAR, BEST)] == [0, 1, 0]


def test_the_only_other_setting_runs_once_more_where_there_is_no_bf16():
    space, mine, other = Space(KNOBS[:3]), GIVEN[:3], OTHER[:3]
    speeds = {mine: 100, other: 103}
    pairs = [("baseline", ran(mine, 100, space=space))]
    pairs.append(("search", ran(other, 92, space=space, **CUT)))
    while point := again(History(space, mine, trials(*pairs, space=space))):
        pairs.append(("confirm", ran(point, speeds[point], space=space)))
        assert len(pairs) < 40
    found = decide(History(space, mine, trials(*pairs, space=space)), 1.0)
    assert (found.chosen, found.verdict) == (other, "faster")


def test_what_is_chosen_in_the_end_has_its_own_twin_confirmed():
    """The confirmation found that another setting is faster."""
    found = trials(
        ("baseline", ran(GIVEN, 100)),
        ("search", ran(OTHER, 149)),
        ("search", ran(BEST, 150)),
    )
    speeds = {
        BEST: [ran(BEST, 130)],
        OTHER: [ran(OTHER, 149)],
        OTHER_BF16: [ran(OTHER_BF16, 110)],
    }
    asked = order(found, STEADY | speeds)
    assert asked.count(OTHER_BF16) == 2
    assert order(found, STEADY | {OTHER: [ran(OTHER, 140)]}).count(OTHER_BF16) == 0


BF16_AT = {batch: (index, 1, 1, 0) for index, batch in enumerate((1, 2, 4, 8))}
FP8 = {batch: (index, 1, 1, 1) for index, batch in enumerate((1, 2, 4, 8))}


def confirmed(bf16, found, given=2):
    """What is measured after FP8 ran at ``found``, where bf16 is as fast as told."""
    fp8 = {1: 80.0, 2: 100.0, 4: 150.0, 8: 200.0}
    known = [("baseline", ran(FP8[given], fp8[given]))]
    known += [("search", ran(FP8[batch], fp8[batch])) for batch in found]
    tried = trials(*known)
    while (point := again(History(SPACE, FP8[given], tried))) is not None:
        batch = 2 ** point[0]
        speed = (fp8 if point[3] else bf16)[batch]
        stages = [(t.stage, t.record) for t in tried]
        tried = trials(*stages, ("confirm", ran(point, speed)))
        assert len(tried) < 40
    return tried


@pytest.mark.parametrize(
    ("bf16", "found", "tried", "best"),
    [
        # bf16 is the fastest at the batch that suits FP8
        ({4: 100.0, 8: 130.0}, (4, 8), {4, 8}, 8),
        # a smaller batch suits it better, and the next one does not
        ({2: 120.0, 4: 140.0, 8: 130.0}, (4, 8), {2, 4, 8}, 4),
        # down to where FP8 has run
        ({1: 150.0, 2: 145.0, 4: 140.0, 8: 130.0}, (1, 4, 8), {1, 2, 4, 8}, 1),
        ({2: 145.0, 4: 140.0, 8: 130.0}, (4, 8), {2, 4, 8}, 2),
        # FP8 has run nowhere between
        ({2: 145.0, 8: 130.0}, (8,), {2, 8}, 2),
    ],
)
def test_bf16_is_measured_at_its_own_best_batch(bf16, found, tried, best):
    after = confirmed(bf16, found)
    runs = [2 ** SPACE.point(t.record.knobs)[0] for t in after if is_bf16(t)]
    assert set(runs) == tried
    assert runs.count(best) == max(map(runs.count, runs)) >= 2
    said = decide(History(SPACE, FP8[2], after), 0.0)
    assert (said.chosen, said.speed.bf16_baseline.value) == (FP8[8], bf16[best])
    assert said.speed.fp8_gain.value == pytest.approx(200.0 / bf16[best])


def is_bf16(trial):
    return trial.record.knobs[PRECISION] == "bf16"


def test_nothing_runs_on_beside_a_given_one_that_gives_no_answer():
    """There is no ratio to come to know, however often the best one runs."""
    gone = ran(GIVEN, outcome="hang")
    found = trials(("baseline", gone), ("search", ran(BEST, 150)))
    speeds = {GIVEN: [gone], BEST: [ran(BEST, 150)], BEST_BF16: [ran(BEST_BF16, 100)]}
    asked = order(found, speeds)
    assert asked.count(GIVEN) == 1
    assert asked.count(BEST) < MOST / 2
