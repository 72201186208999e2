"""What trials say: what to take, how fast it is, whether FP8 pays."""

import pytest

from fp8tune.search.answer import answer, ranked
from fp8tune.search.closing import no_gain
from fp8tune.trials.space import Space
from tests.search.tries import (
    BEST,
    GIVEN,
    KNOBS,
    OTHER,
    SPACE,
    TWIN,
    confirmed,
    ran,
    trials,
)


def said(*pairs, space=SPACE):
    found = answer(space, GIVEN, trials(*pairs), 99.0)
    value = found.speed and found.speed.value
    return found.chosen, found.verdict, value


def test_the_whole_answer():
    best = SPACE.twin(BEST)
    found = answer(
        SPACE,
        GIVEN,
        trials(
            ("baseline", ran(GIVEN)),
            ("bf16-baseline", ran(TWIN, 80)),
            ("search", ran(OTHER, outcome="oom")),
            ("search", ran(BEST, 130)),
            ("confirm", ran(BEST, 120)),
            ("confirm", ran(best, 100)),
            ("confirm", ran(GIVEN)),
        ),
        99.0,
    )
    assert found.chosen == BEST
    assert found.verdict == "faster"
    assert found.gain.value == pytest.approx(1.2)
    assert (found.speed.value, found.given.value, found.twin.value) == (120, 100, 100)
    assert found.fp8_gain == 1.2
    assert found.runner_up == GIVEN
    assert found.record == ran(BEST, 120)
    assert (found.trials, found.oom_trials, found.seconds) == (7, 1, 99.0)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], (None, "inconclusive", None)),
        ([("baseline", ran(GIVEN, outcome="hang"))], (None, "inconclusive", None)),
        ([("bf16-baseline", ran(TWIN, 300))], (None, "inconclusive", None)),
        ([("baseline", ran(GIVEN))], (GIVEN, "inconclusive", 100)),
        (
            [("baseline", ran(GIVEN)), ("search", ran(BEST, 100.8))],
            (GIVEN, "inconclusive", 100),
        ),
        (
            [("baseline", ran(GIVEN)), *confirmed(ran(BEST, 100.8), ran(GIVEN, 100))],
            (GIVEN, "inconclusive", 100),
        ),
        (
            [
                ("baseline", ran(GIVEN)),
                *confirmed(*[ran(BEST, 100.4), ran(GIVEN, 100)] * 6),
            ],
            (GIVEN, "same", 100),
        ),
        (
            [("baseline", ran(GIVEN)), *confirmed(ran(BEST, 120), ran(GIVEN, 100))],
            (BEST, "faster", 120),
        ),
        (
            [("baseline", ran(GIVEN)), ("search", ran(BEST, 120))],
            (BEST, "inconclusive", 120),
        ),
        (
            [("baseline", ran(GIVEN)), ("search", ran(BEST, 101.2))],
            (BEST, "inconclusive", 101.2),
        ),
        (
            [("baseline", ran(GIVEN)), ("search", ran(BEST, 50))],
            (GIVEN, "inconclusive", 100),
        ),
        (
            [
                ("baseline", ran(GIVEN)),
                ("search", ran(BEST, 50)),
                *confirmed(ran(TWIN)),
            ],
            (GIVEN, "same", 100),
        ),
        ([("search", ran(BEST))], (BEST, "inconclusive", 100)),
        (
            [("baseline", ran(GIVEN, outcome="oom")), ("search", ran(BEST))],
            (BEST, "faster", 100),
        ),
        (
            [("baseline", ran(GIVEN, outcome="hang")), ("search", ran(BEST))],
            (BEST, "inconclusive", 100),
        ),
        (
            [("baseline", ran(GIVEN)), ("bf16-baseline", ran(TWIN, 300))],
            (GIVEN, "inconclusive", 100),
        ),
        (
            [("baseline", ran(GIVEN)), ("search", ran(BEST, outcome="oom"))],
            (GIVEN, "inconclusive", 100),
        ),
    ],
)
def test_choices(pairs, expected):
    assert said(*pairs) == expected


def test_bf16_is_chosen_where_that_is_allowed():
    free = Space([knob._replace(frozen=False) for knob in KNOBS])
    pairs = ("baseline", ran(GIVEN)), *confirmed(ran(TWIN, 120), ran(GIVEN))
    assert said(*pairs, space=free) == (TWIN, "faster", 120)
    found = answer(free, GIVEN, trials(*pairs), 1.0)
    assert found.twin == found.speed
    assert found.fp8_gain == pytest.approx(100 / 120)


def test_without_the_chosen_ones_twin_the_given_ones_tells_what_fp8_gains():
    pairs = (
        ("baseline", ran(GIVEN)),
        ("bf16-baseline", ran(TWIN, 80)),
        ("search", ran(BEST, 160)),
    )
    found = answer(SPACE, GIVEN, trials(*pairs), 1.0)
    assert (found.chosen, found.twin.value, found.fp8_gain) == (BEST, 80, 1.25)
    assert found.pair == (GIVEN, TWIN)


def test_luck_does_not_beat_a_confirmation():
    lucky = trials(
        ("search", ran(BEST, 110)),
        ("search", ran(OTHER, 100.2)),
        ("confirm", ran(BEST, 100)),
    )
    assert ranked(SPACE, GIVEN, lucky) == [BEST, OTHER]


def test_a_gpu_that_slows_down_makes_nothing_faster():
    """What was not measured again ran while the GPU was faster."""
    slowed = (
        ("baseline", ran(GIVEN, 100)),
        ("search", ran(BEST, 100.5)),
        ("search", ran(OTHER, 100.2)),
        *confirmed(*[ran(BEST, 95.2), ran(GIVEN, 95)] * 6),
    )
    assert said(*slowed) == (GIVEN, "same", 95)
    failed = *slowed[:3], ("confirm", ran(BEST, outcome="oom")), slowed[-1]
    assert ranked(SPACE, GIVEN, trials(*failed)) == [OTHER, GIVEN]


def test_only_bf16_that_ran_beside_fp8_is_its_reference():
    found = answer(
        SPACE,
        GIVEN,
        trials(
            ("baseline", ran(GIVEN, 100)),
            ("bf16-baseline", ran(TWIN, 90)),
            ("search", ran(BEST, 120)),
            ("confirm", ran(BEST, 96)),
            ("confirm", ran(SPACE.twin(BEST), 80)),
            ("confirm", ran(GIVEN, 80)),
        ),
        1.0,
    )
    assert (found.twin.value, found.fp8_gain) == (80, pytest.approx(1.2))


def test_fp8_is_held_against_bf16_of_the_same_stage():
    """The GPU became slower before the given one was measured again, its twin not."""
    slowed = (
        ("baseline", ran(GIVEN, 100)),
        ("bf16-baseline", ran(TWIN, 90)),
        ("search", ran(BEST, 120)),
        ("confirm", ran(BEST, 96)),
        ("confirm", ran(GIVEN, 80)),
    )
    found = answer(SPACE, GIVEN, trials(*slowed), 1.0)
    assert (found.twin.value, found.pair) == (90, (GIVEN, TWIN))
    assert found.fp8_gain == pytest.approx(100 / 90)
    later = answer(SPACE, GIVEN, trials(*slowed, ("confirm", ran(TWIN, 64))), 1.0)
    assert (later.twin.value, later.fp8_gain) == (64, 1.25)
    alone = trials(("baseline", ran(GIVEN, outcome="oom")), *slowed[1:2])
    found = answer(SPACE, GIVEN, alone, 1.0)
    assert (found.twin.value, found.fp8_gain, found.pair) == (90, None, None)


@pytest.mark.parametrize(
    ("again", "confirmed"),
    [
        ([], False),
        ([ran(BEST, 120)], False),
        ([ran(GIVEN, 100)], False),
        ([ran(BEST, 120), ran(GIVEN, outcome="hang")], False),
        ([ran(BEST, 120), ran(GIVEN, 100)], True),
        ([ran(BEST, 120), ran(GIVEN, outcome="oom")], True),
    ],
)
def test_confirmed_is_what_was_measured_again_on_both_sides(again, confirmed):
    known = ("baseline", ran(GIVEN, 100)), ("search", ran(BEST, 120))
    later = [("confirm", record) for record in again]
    found = answer(SPACE, GIVEN, trials(*known, *later), 1.0)
    assert (found.chosen, found.confirmed) == (BEST, confirmed)
    assert found.verdict == ("faster" if confirmed else "inconclusive")


def test_a_gain_is_of_runs_of_the_same_time():
    """The budget ended after the given one was measured again, on a slower GPU."""
    known = ("baseline", ran(GIVEN, 100)), ("search", ran(BEST, 105))
    found = answer(SPACE, GIVEN, trials(*known, ("confirm", ran(GIVEN, 50))), 1.0)
    assert (found.chosen, found.verdict) == (BEST, "inconclusive")
    assert (found.speed.value, found.given.value) == (105, 100)
    assert found.gain.value == pytest.approx(1.05)
    assert found.gain.half > 0.2  # the study itself saw runs of one setting differ


def test_a_rival_that_the_budget_cut_off_was_not_seen():
    cut = ran(BEST, outcome="hang", more={"budget_s": 60.0})
    known = ("baseline", ran(GIVEN)), ("search", cut), *confirmed(ran(GIVEN))
    assert answer(SPACE, GIVEN, trials(*known), 1.0).verdict == "inconclusive"
    later = *known, ("search", ran(BEST, 90))
    assert answer(SPACE, GIVEN, trials(*later), 1.0).verdict == "same"


def test_one_bad_run_hides_no_gain():
    """Of eight pairs one is far off: it does not count, and the answer says so."""
    best = [102.0, 102.3, 101.9, 91.8, 102.1, 102.2, 101.8, 102.0]
    turns = [ran(p, s) for b in best for p, s in ((GIVEN, 100), (BEST, b))]
    known = ("baseline", ran(GIVEN)), ("search", ran(BEST, 102))
    found = answer(SPACE, GIVEN, trials(*known, *confirmed(*turns)), 1.0)
    assert (found.chosen, found.verdict) == (BEST, "faster")
    assert found.evidence[:2] == (7, 1)
    assert found.gain.value == pytest.approx(1.02, abs=0.002)
    assert found.speed.value == pytest.approx(102, abs=0.2)
    assert found.gain.half < 0.012


@pytest.mark.parametrize(
    ("before", "turns", "verdict"),
    [
        ((100, 101), [(80, 100)], "inconclusive"),
        ((100, 101), [(80, 100), (100, 101)], "inconclusive"),
        ((100, 125), [(80, 100)], "faster"),
        ((100, 101), [(80, 100), (80, 100), (80, 100), (80, 100)], "faster"),
    ],
)
def test_few_pairs_are_held_against_what_the_search_saw(before, turns, verdict):
    """What slows both down is no contradiction; four pairs tell by themselves."""
    known = ("baseline", ran(GIVEN, before[0])), ("search", ran(BEST, before[1]))
    runs = [
        ran(p, v) for turn in turns for p, v in zip((GIVEN, BEST), turn, strict=True)
    ]
    assert (
        answer(SPACE, GIVEN, trials(*known, *confirmed(*runs)), 1.0).verdict == verdict
    )


def test_what_drifts_makes_no_gain():
    """The chosen one is measured on, while the GPU recovers."""
    turns = [(BEST, 95), (GIVEN, 95), (GIVEN, 97), (BEST, 97), (BEST, 100), (BEST, 100)]
    again = confirmed(*(ran(point, speed) for point, speed in turns))
    found = answer(SPACE, GIVEN, trials(("baseline", ran(GIVEN)), *again), 1.0)
    assert (found.chosen, found.verdict) == (GIVEN, "inconclusive")


def test_nothing_to_confirm_beside_where_the_given_one_never_ran():
    known = ("search", ran(BEST, 120)), ("confirm", ran(BEST, 120))
    assert answer(SPACE, GIVEN, trials(*known), 1.0).confirmed


def test_an_untuned_setting_is_held_against_bf16_of_its_own_kind():
    """Whatever bf16 reaches at the chosen setting, where FP8 was not measured."""
    space = Space((*KNOBS[:3], KNOBS[3]._replace(frozen=False)))
    best = space.twin(BEST)
    pairs = [
        ("baseline", ran(GIVEN)),
        ("bf16-baseline", ran(TWIN, 125)),
        ("search", ran(best, 300)),
    ]
    found = answer(space, GIVEN, trials(*pairs), 99.0)
    assert (found.chosen, found.fp8_gain, found.pair) == (best, 0.8, (GIVEN, TWIN))
    assert no_gain(found, space).startswith(
        "bf16 is faster: FP8 does not pay at your config's setting, it reaches 80.0 %"
    )
    assert no_gain(found, space).endswith("; at the chosen one that was not measured")
