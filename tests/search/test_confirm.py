"""What is measured again at the end, and when that is enough."""

import pytest

from fp8tune.search.answer.decide import decide
from fp8tune.search.confirm import again
from fp8tune.search.history import History
from fp8tune.trials.space import Space
from tests.each import each
from tests.search.tries import (
    BEST,
    BF16,
    GIVEN,
    KNOBS,
    OTHER,
    SPACE,
    history,
    ran,
    trials,
)

in_bf16 = SPACE.in_bf16
NEAR = (3, 1, 1, 1)
SETTINGS = dict(
    zip(
        "GgBbNnOoPp",
        (
            p
            for point in (GIVEN, BEST, NEAR, OTHER, (2, 0, 1, 1))
            for p in (point, in_bf16(point))
        ),
        strict=True,
    )
)
"""Letters for settings: capital in FP8, small for the same in bf16; G is the baseline.

B, N and G differ in the batch alone, O and P in the checkpointing.
"""
LETTERS = {point: letter for letter, point in SETTINGS.items()}
STAGES = {"G": "baseline", "g": "bf16-baseline"}
STEADY = {"G": 100, "g": 90, "B": 150, "b": 120, "N": 148, "n": 110, "O": 130, "o": 80}


def record(letter, told):
    """A record of a setting: its tokens/s, or its outcome where that is a word."""
    point = SETTINGS[letter]
    return ran(point, outcome=told) if isinstance(told, str) else ran(point, told)


def searched(search):
    """Stages and records of a search; a list has a trial for each of its values."""
    return [
        (STAGES.get(letter, "search"), record(letter, value))
        for letter, told in search.items()
        for value in (told if isinstance(told, list) else [told])
    ]


def order(search, now, space=SPACE):
    """The letters of what is confirmed after a search, where each runs as told.

    A list is told in turn, again and again.
    """
    pairs = searched(search)
    asked = ""
    while point := again(History(space, GIVEN, trials(*pairs))):
        letter = LETTERS[point]
        told = now.get(letter, STEADY[letter])
        turns = told if isinstance(told, list) else [told]
        turn = turns[asked.count(letter) % len(turns)]
        pairs.append(("confirm", record(letter, turn)))
        asked += letter
        assert len(asked) < 40, f"it never ends: {asked}"
    return asked


FOUND = {"G": 100, "g": 90, "N": 149.5, "B": 150, "O": 130}
FEW = {"G": 100, "g": 90, "B": 150, "O": 130}
TENTH = {"G": 90, "g": 81, "B": 135, "b": 100, "O": 126, "N": 125, "n": 90}
HALF = {"G": 50, "g": 45, "B": 75, "b": 60}
SMALL = {"G": 100, "B": 120, "N": 148}
ALIKE = {"G": 100, "g": 80, "B": 101, "N": 100.8, "O": 100.6}


@each(
    ("search", "now", "asked"),
    [
        # the verdict comes first; then bf16 looks for its best batch
        (FOUND, {}, "BGNBGN bn Bb"),
        # FP8 and bf16 take turns until it is clear which is faster
        (FEW, {"b": [120, 124, 117]}, "BGBG bBb"),
        (FEW, {"b": [149, 152, 148]}, "BGBG bBbbBBbbBBb"),
        # bf16 is faster at the baseline's batch than at the best one
        ({"G": 100, "g": 130, "B": 150}, {"g": 130}, "BGBG bgBg"),
        (
            {**SMALL, "g": 130},
            {"g": 130},
            "NGNG nbg Ngg N",
        ),  # and so the next one is tried
        # what fails for good does not run again, and what hangs has a second chance
        (FOUND, {"B": "oom"}, "BGNGN nNn"),
        (FOUND, {"B": "hang"}, "BGNBGN nbNb"),
        (FOUND, {"b": "oom"}, "BGNBGN bgBgg BG"),
        (FEW, {"G": "oom"}, "BGB bBb"),
        ({"G": "hang", "B": 150}, {"G": "hang"}, "BGB bBb"),
        ({"G": "hang", "B": 150}, {}, "BGBG bgBb"),
        # one that is compared with bf16 alone takes turns with it
        ({"G": "oom", "B": 150}, {}, "BB bBb"),
        ({"G": "oom", "B": 150, "N": 149, "O": 80}, {}, "BNBN bnBb"),
        # the search saw another one faster than the best now is: its turn beside G
        (FEW, {"B": 110, "O": 131}, "BGBG OGO ogOg"),
        (FEW, {"B": 110, "O": "oom"}, "BGBG O GBBG bBb"),
        (FEW, {"B": 75, "G": 50, "O": 131}, "BGBG OGO ogOg"),  # nobody knows since when
        (FEW, {"B": 129, "G": 110, "O": 131}, "BGBG GBBG bBb"),  # no more than others
        (
            {"G": 100, "g": 90, "B": 150, "O": 70},
            HALF,
            "BGBG bgBb",
        ),  # not O, which was slower
        ({**FEW, "O": 140, "N": 139}, TENTH, "BGBG OGO NGN bnBbB"),
        # the runs do not tell yet which one is faster
        (
            {"G": 100, "g": 90, "B": 104},
            {"G": [100, 103, 101], "B": [102, 108, 104]},
            "BGBGGBBGGBbBbG",
        ),
        (ALIKE, {"B": 101, "N": [100.8, 101.5], "O": 100}, "BGNOBGNOnbNb"),
        ({"G": 100, "g": 90, "O": 97}, {"G": [100, 94, 100], "O": 97}, "GOgGgOOGGOg"),
        (
            {"G": 100, "g": 90, "O": 95},
            {"G": [100, 90, 104], "O": 95},
            "GOgGgOOGGOggGGggG",
        ),
        (
            {"G": 100, "g": 90, "O": [95, 95.2]},
            {"G": [100, 90, 104], "O": 95},
            "GgGO" + "GOOG" * 6 + "GOg",
        ),
        ({"G": 100, "g": 90, "O": [95, 95.2]}, {"O": 95}, "GgGg"),
        # a slow run of another may have been a bad one, if it lost a tenth at most
        ({"G": 100, "g": 90, "O": 92}, {"O": 103}, "GOGOOGGOogOg"),
        ({"G": 100, "g": 90, "O": 90}, {"O": 103}, "GOGOOGGOogOggO"),
        ({"G": 100, "g": 90, "O": 89.9}, {"O": 103}, "Gg Gg"),
        ({"G": 100, "g": 90, "O": 92}, {"O": 93}, "GO gGg"),
        ({"G": 100, "g": 90, "O": 92}, {"O": "hang"}, "GOGOgGg"),
        ({"G": 100, "O": 92, "N": 93, "B": 91}, {"O": 93, "N": 93, "B": 93}, "GNgbnGb"),
        # what is chosen in the end is compared with bf16
        ({"G": 100, "O": 149, "B": 150}, {"B": 130, "O": 149}, "BGOBGO oOo"),
        ({"G": 100, "O": 149, "B": 150}, {"O": 140}, "BGOBGObgBb"),
        # a run that hung is made up for
        ({"G": 100, "g": 90, "B": 150}, {"B": ["hang", *[150] * 5]}, "BGBG GBbBb"),
        # nothing is as fast as the baseline
        ({"G": 100}, {}, "GgGg"),
        ({"G": 100, "g": 90, "O": 60}, {}, "GgGg"),
        ({"g": 100}, {}, ""),
        ({"G": "oom"}, {}, ""),
        ({"G": "oom", "g": 90}, {}, ""),
        ({}, {}, ""),
    ],
)
def test_the_order_of_the_confirmation(search, now, asked):
    assert order(search, now) == asked.replace(" ", "")


FREE = Space([knob._replace(frozen=False) for knob in KNOBS])
WITHOUT_BASELINE = Space(KNOBS, [BEST, in_bf16(BEST), NEAR, in_bf16(NEAR)])


@each(
    ("space", "search", "now", "asked"),
    [
        # of a setting in bf16 the counterpart is in FP8, and no other bf16 runs
        (FREE, {"G": 100, "g": 104, "b": 150}, {"b": 150, "B": 120}, "bGbG BbB"),
        (FREE, {"G": 100, "g": 160, "b": 150}, {"b": 150, "g": 160}, "gGgG"),
        # a replay that does not have the baseline never asks for it
        (WITHOUT_BASELINE, {"B": 150, "N": 149}, {}, "BNBN bnBb"),
    ],
)
def test_the_order_where_more_or_less_may_be_chosen(space, search, now, asked):
    assert order(search, now, space) == asked.replace(" ", "")


@each(
    ("now", "drift", "changed", "apart"),
    [
        ({"G": 100, "B": 150}, 1.0, False, False),
        ({"G": 97.1, "B": 145.65}, 0.971, False, False),
        ({"G": 96.9, "B": 145.35}, 0.969, True, False),
        ({"G": 103.1, "B": 154.65}, 1.031, True, False),
        ({"G": 100, "B": 147}, 0.99, False, False),
        ({"G": 110, "B": 140}, (1.1 + 140 / 150) / 2, True, True),
        ({}, 1.0, False, False),
    ],
)
def test_whether_settings_still_run_as_fast_as_in_the_search(
    now, drift, changed, apart
):
    search = [("baseline", record("G", 100)), ("search", record("B", 150))]
    known = history(*search, *(("confirm", record(n, v)) for n, v in now.items()))
    assert (known.speed_changed, known.changed_apart) == (changed, apart)
    assert known.drift == pytest.approx(drift)


def test_a_larger_budget_confirms_everything_again():
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
    stages = [*known, ("confirm", ran(in_bf16(BEST), 80, **later))]
    assert again(history(*stages)) == GIVEN
    stages.append(("confirm", ran(GIVEN, 90, **later)))
    found = decide(history(*stages), 1.0)
    assert (found.speed.chosen.value, found.speed.baseline.value) == (97, 90)


def test_the_baseline_alone_needs_no_confirmation():
    space = Space(KNOBS[:3])
    found = trials(("baseline", ran(GIVEN[:3], space=space)), space=space)
    assert again(History(space, GIVEN[:3], found)) is None


def test_the_only_other_setting_runs_once_more_where_there_is_no_bf16():
    space, mine, other = Space(KNOBS[:3]), GIVEN[:3], OTHER[:3]
    speeds = {mine: 100, other: 103}
    pairs = [("baseline", ran(mine, 100, space=space))]
    pairs.append(("search", ran(other, 92, space=space)))
    while point := again(History(space, mine, trials(*pairs, space=space))):
        pairs.append(("confirm", ran(point, speeds[point], space=space)))
        assert len(pairs) < 40
    found = decide(History(space, mine, trials(*pairs, space=space)), 1.0)
    assert (found.chosen, found.verdict) == (other, "faster")


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
    points = [SPACE.point(trial.record.knobs) for trial in after]
    runs = [2 ** point[0] for point in points if not point[3]]
    assert set(runs) == tried
    assert runs.count(best) == max(map(runs.count, runs)) >= 2
    said = decide(History(SPACE, FP8[2], after), 0.0)
    assert (said.chosen, said.speed.bf16_baseline.value) == (FP8[8], bf16[best])
    assert said.speed.fp8_gain.value == pytest.approx(200.0 / bf16[best])


def test_a_rehearsal_chooses_in_the_config_s_precision():
    """A CPU emulates FP8, so that bf16 is always faster there."""
    free = Space(knob._replace(frozen=False) for knob in KNOBS)

    def chosen(**fields):
        records = [ran(GIVEN, 100.0, **fields), ran(BF16, 900.0, **fields)]
        records += [ran(BEST, 200.0, **fields)]
        made = [("search", record) for record in records]
        return History(free, GIVEN, trials(*made, space=free)).ranked[0]

    assert chosen() == BF16
    assert chosen(rehearsal=True) == BEST
