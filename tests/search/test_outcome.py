"""What trials say: what to take, how fast it is, whether FP8 pays."""

import re

import pytest

from fp8tune.search.answer.answer import Ending, Estimate, failure_code
from fp8tune.search.answer.decide import decide
from fp8tune.search.answer.wording import MESSAGES, behind, message
from fp8tune.search.history import History
from fp8tune.search.objective import SPEED
from fp8tune.trials.space import Space
from tests.conftest import REPOSITORY
from tests.each import each
from tests.search.tries import (
    BATCH,
    BEST,
    BF16,
    GIVEN,
    KNOBS,
    OTHER,
    PRECISION,
    SPACE,
    confirmed,
    history,
    history_of,
    ran,
    trials,
)

NONE = (None, None)


def decided(*pairs, space=SPACE, **more):
    """The answer to trials of a stage and a record."""
    return decide(History(space, GIVEN, trials(*pairs)), 99.0, **more)


def said(*pairs):
    found = decided(*pairs)
    value = found.speed.chosen and found.speed.chosen.value
    return found.chosen, found.verdict, value


def codes(found):
    return [finding.code for finding in found.findings]


def test_the_whole_answer():
    best = SPACE.in_bf16(BEST)
    found = decided(
        ("baseline", ran(GIVEN)),
        ("bf16-baseline", ran(BF16, 80)),
        ("search", ran(OTHER, outcome="oom")),
        ("search", ran(BEST, 130)),
        *[("confirm", ran(p, v)) for p, v in ((BEST, 120), (best, 100), (GIVEN, 100))]
        * 2,
    )
    assert (found.chosen, found.verdict) == (BEST, "faster")
    speed = found.speed
    assert [e.value for e in speed[:5]] == pytest.approx([120, 100, 1.2, 100, 1.2])
    assert all(e.low < e.value < e.high for e in speed[:5])
    assert speed.fp8_verdict == "faster"
    assert speed.fp8_pairs == 2
    assert speed.pair == (BEST, best)
    assert (found.runner_up, found.pairs) == (GIVEN, 2)
    assert found.record == ran(BEST, 120)
    assert (found.trials, found.oom_trials, found.seconds) == (10, 1, 99.0)
    assert codes(found) == ["faster", "too-little-memory", "fp8-faster-than-bf16"]


@each(
    ("others", "expected"),
    [
        ([], (GIVEN, "inconclusive", 100)),
        ([("search", ran(BEST, 100.8))], (GIVEN, "inconclusive", 100)),
        (confirmed(*[ran(BEST, 100.4), ran(GIVEN)] * 6), (GIVEN, "same", 100)),
        (confirmed(ran(BEST, 120), ran(GIVEN)), (BEST, "inconclusive", 120)),
        (confirmed(*[ran(BEST, 120), ran(GIVEN)] * 2), (BEST, "faster", 120)),
        ([("search", ran(BEST, 120))], (BEST, "inconclusive", 120)),
        ([("search", ran(BEST, 50))], (GIVEN, "inconclusive", 100)),
        ([("search", ran(BEST, 50)), *confirmed(ran(BF16))], (GIVEN, "same", 100)),
    ],
)
def test_choices(others, expected):
    assert said(("baseline", ran(GIVEN)), *others) == expected


def test_choices_without_a_baseline():
    nothing = (None, "inconclusive", None)
    assert said() == said(("bf16-baseline", ran(BF16, 300))) == nothing
    assert said(("search", ran(BEST))) == (BEST, "inconclusive", 100)


def test_without_the_chosen_ones_twin_the_given_ones_tells_what_fp8_gains():
    pairs = (
        ("baseline", ran(GIVEN)),
        ("bf16-baseline", ran(BF16, 80)),
        ("search", ran(BEST, 160)),
    )
    found = decided(*pairs)
    assert (found.chosen, found.speed.pair) == (BEST, (GIVEN, BF16))
    assert found.speed.bf16_baseline == (80.0, *NONE)
    assert found.speed.fp8_gain == (1.25, *NONE)
    assert found.find("fp8-inconclusive").facts["at"] == "baseline"


def test_luck_does_not_beat_a_confirmation():
    lucky = trials(
        ("search", ran(BEST, 110)),
        ("search", ran(OTHER, 100.2)),
        ("confirm", ran(BEST, 100)),
    )
    assert history_of(lucky).ranked == [BEST, OTHER]


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
    assert history(*failed).ranked == [OTHER, GIVEN]


def test_only_bf16_that_ran_beside_fp8_is_its_reference():
    found = decided(
        ("baseline", ran(GIVEN, 100)),
        ("bf16-baseline", ran(BF16, 90)),
        ("search", ran(BEST, 120)),
        ("confirm", ran(BEST, 96)),
        ("confirm", ran(SPACE.in_bf16(BEST), 80)),
        ("confirm", ran(GIVEN, 80)),
    )
    measured = found.speed
    assert measured.bf16_baseline.value == 80
    assert measured.fp8_gain.value == pytest.approx(1.2)


def test_bf16_s_figure_is_not_above_all_its_runs():
    """FP8's slow run is the neighbour of bf16's; the gain is by these two."""
    best = SPACE.with_precision(BEST, "bf16")
    noisy = (
        ("baseline", ran(GIVEN, 100)),
        ("search", ran(BEST, 220)),
        ("confirm", ran(BEST, 220)),
        ("confirm", ran(GIVEN, 100)),
        ("confirm", ran(best, 150)),
        ("confirm", ran(BEST, 120)),
    )
    speed = decided(*noisy).speed
    assert (speed.chosen.value, speed.bf16_baseline.value) == (220, 150)
    assert speed.fp8_gain.value == pytest.approx(120 / 150)


def test_fp8_is_held_against_bf16_of_the_same_stage():
    """The GPU became slower before the baseline ran again, and not in bf16.

    The figure of bf16 is scaled by that, so that it compares with the others.
    """
    slowed = (
        ("baseline", ran(GIVEN, 100)),
        ("bf16-baseline", ran(BF16, 90)),
        ("search", ran(BEST, 120)),
        ("confirm", ran(BEST, 96)),
        ("confirm", ran(GIVEN, 80)),
    )
    found = decided(*slowed)
    assert found.speed.bf16_baseline.value == pytest.approx(80 * 90 / 100)
    assert found.speed.pair == (GIVEN, BF16)
    assert found.speed.fp8_gain.value == pytest.approx(100 / 90)
    later = decided(*slowed, ("confirm", ran(BF16, 64)))
    assert (later.speed.bf16_baseline.value, later.speed.fp8_gain.value) == (64, 1.25)
    found = decided(("baseline", ran(GIVEN, outcome="oom")), slowed[1])
    assert (found.speed.bf16_baseline.value, found.speed.fp8_gain) == (90, None)
    assert codes(found) == ["no-trial-succeeded", "fp8-not-compared"]


PAIR = [ran(BEST, 120), ran(GIVEN, 100)]


@pytest.mark.parametrize(
    ("again", "verdict", "doubt"),
    [
        ([], "inconclusive", "not-confirmed"),
        (PAIR[:1], "inconclusive", "not-confirmed"),
        (PAIR[1:], "inconclusive", "not-confirmed"),
        ([PAIR[0], ran(GIVEN, outcome="hang")], "inconclusive", "not-confirmed"),
        (PAIR, "inconclusive", "one-pair-only"),
        (PAIR * 2, "faster", "bf16-not-measured"),
        ([ran(BEST, 1000), *PAIR, ran(GIVEN, 80)], "inconclusive", "more-pairs-needed"),
    ],
)
def test_a_verdict_takes_two_pairs_of_runs_and_says_what_would_settle_it(
    again, verdict, doubt
):
    known = ("baseline", ran(GIVEN, 100)), ("search", ran(BEST, 120))
    later = [("confirm", record) for record in again]
    ending = Ending(settling_s=300.0)
    found = decided(*known, *later, ending=ending)
    assert (found.chosen, found.verdict) == (BEST, verdict)
    doubts = [f for f in found.findings if "budget_s" in f.facts]
    assert [(f.code, f.facts["budget_s"]) for f in doubts] == [(doubt, 300.0)]
    assert (found.speed.gain.low is None) == (verdict == "inconclusive")


def test_a_gain_is_of_runs_of_the_same_time():
    """The budget ended after the baseline was measured again, on a slower GPU."""
    known = ("baseline", ran(GIVEN, 100)), ("search", ran(BEST, 105))
    found = decided(*known, ("confirm", ran(GIVEN, 50)))
    assert (found.chosen, found.verdict) == (BEST, "inconclusive")
    assert (found.speed.chosen.value, found.speed.baseline.value) == (105, 100)
    assert found.numbers == (1,)
    assert found.speed.gain == (pytest.approx(1.05), *NONE)


def test_a_rival_that_the_budget_cut_off_was_not_seen():
    cut = ran(BEST, outcome="hang", more={"budget_s": 60.0})
    known = ("baseline", ran(GIVEN)), ("search", cut), *confirmed(ran(GIVEN))
    assert decided(*known).verdict == "inconclusive"
    later = *known, ("search", ran(BEST, 90))
    assert decided(*later).verdict == "same"


def with_a_run_of(speed):
    """The outcome after eight pairs of runs, in one of which the best had a speed."""
    best = [102.0, 102.3, 101.9, speed, 102.1, 102.2, 101.8, 102.0]
    turns = [ran(p, s) for b in best for p, s in ((GIVEN, 100), (BEST, b))]
    known = ("baseline", ran(GIVEN)), ("search", ran(BEST, 102))
    return decided(*known, *confirmed(*turns))


def test_a_pair_counts_up_to_three_deviations_from_the_median():
    assert [with_a_run_of(speed).pairs for speed in (101.0, 100.7)] == [8, 7]


def test_one_bad_run_hides_no_gain():
    """Of eight pairs one is far off: it does not count, and the answer says so."""
    found = with_a_run_of(91.8)
    assert (found.chosen, found.verdict) == (BEST, "faster")
    assert found.pairs == 7
    assert found.find("pairs-left-out").facts == {
        "outliers": 1,
        "pairs": 8,
        "settings": [{BATCH: 4}, {}],
    }
    assert found.numbers == (3, 5, 7, 11, 13, 15, 17)  # 9 is the bad run
    assert found.speed.gain.value == pytest.approx(1.02, abs=0.002)
    assert found.speed.chosen.value == pytest.approx(102, abs=0.2)
    assert found.speed.gain.high - found.speed.gain.low < 0.024


def test_every_pair_that_does_not_count_is_said():
    """Of a config that stays and of FP8 vs bf16 too."""
    turns = [
        ("confirm", ran(point, speed, more={"budget_s": budget}))
        for budget, shares in ((300, [1]), (600, [1, 1]), (7200, [0.9, *[1] * 6]))
        for share in shares
        for point, speed in ((GIVEN, 100), (BEST, 95 * share), (BF16, 80 * share))
    ]
    known = ("baseline", ran(GIVEN)), ("search", ran(BEST, 95))
    found = decided(*known, *turns)
    left_out = [f for f in found.findings if f.code == "pairs-left-out"]
    assert [f.facts for f in left_out] == [
        {
            "outliers": 1,
            "pairs": pairs,
            "settings": [{}, other],
        }
        for pairs, other in ((7, {BATCH: 4}), (6, {PRECISION: "bf16"}))
    ]
    assert message(left_out[0]) == (
        "not counted: 1 of 7 pairs of runs, more than 3 standard deviations from their "
        "median (your config against batch_size = 4)"
    )


def test_runs_on_different_workers_are_no_pair():
    """The confirmation of a search that was stopped and continued."""
    turns = [
        ("confirm", ran(point, speed, more={"worker": worker}))
        for worker, run in (("w1", (BEST, 120)), ("w2", (GIVEN, 100)))
        for point, speed in [run]
    ]
    known = ("baseline", ran(GIVEN)), ("search", ran(BEST, 120))
    found = decided(*known, *turns)
    assert codes(found)[:2] == ["inconclusive", "not-confirmed"]
    more = [("confirm", ran(BEST, 120, more={"worker": "w2"}))]
    found = decided(*known, *turns, *more)
    assert found.pairs == 1


@pytest.mark.parametrize(
    ("before", "turns", "verdict"),
    [
        ((100, 99), [(80, 100)] * 2, "inconclusive"),
        ((100, 90), [(80, 100)] * 3, "inconclusive"),
        ((100, 90), [(80, 100)] * 4, "faster"),
        ((100, 125), [(80, 100)], "inconclusive"),
        ((100, 125), [(80, 100), (80, 100)], "faster"),
    ],
)
def test_few_pairs_are_held_against_what_the_search_saw(before, turns, verdict):
    """What slows both down is no contradiction; four pairs tell by themselves."""
    known = ("baseline", ran(GIVEN, before[0])), ("search", ran(BEST, before[1]))
    runs = [
        ran(p, v) for turn in turns for p, v in zip((GIVEN, BEST), turn, strict=True)
    ]
    assert decided(*known, *confirmed(*runs)).verdict == verdict


def test_what_drifts_makes_no_gain():
    """The chosen one is measured on, while the GPU recovers."""
    turns = [(BEST, 95), (GIVEN, 95), (GIVEN, 97), (BEST, 97), (BEST, 100), (BEST, 100)]
    again = confirmed(*(ran(point, speed) for point, speed in turns))
    found = decided(("baseline", ran(GIVEN)), *again)
    assert (found.chosen, found.verdict) == (GIVEN, "same")


def test_an_untuned_setting_is_held_against_bf16_of_its_own_kind():
    """Whatever bf16 reaches at the chosen setting, where FP8 was not measured."""
    space = Space((*KNOBS[:3], KNOBS[3]._replace(frozen=False)))
    best = space.in_bf16(BEST)
    pairs = [
        ("baseline", ran(GIVEN)),
        ("bf16-baseline", ran(BF16, 125)),
        ("search", ran(best, 300)),
    ]
    found = decided(*pairs, space=space)
    assert (found.chosen, found.speed.pair) == (best, (GIVEN, BF16))
    assert found.speed.fp8_gain == (0.8, *NONE)


def test_the_docs_name_every_code():
    text = (REPOSITORY / "docs" / "reference" / "json.md").read_text()
    rows = text.split("| findings | codes |")[1].split("\n\n")[0]
    assert set(re.findall(r"`([a-z0-9-]+)`", rows)) == set(MESSAGES)


@each(
    ("outcome", "more", "how"),
    [
        ("launch", {"stage_reached": "build"}, "launch"),
        ("launch", {"stage_reached": "steady"}, "died-in-its-steps"),
        ("launch", {"step_ms": (9.0,)}, "does-not-count"),
        ("oom", {"stage_reached": "steady"}, "oom"),
        ("launch", {"cut_off": True, "stage_reached": "import"}, "cut-off"),
        ("user", {"error": "BadData"}, "wrong-data"),
        ("user", {"error": "ShortData"}, "wrong-data"),
    ],
)
def test_a_failure_has_a_code(outcome, more, how):
    record = ran(GIVEN, outcome=outcome, **more)
    assert failure_code(*trials(("search", record))) == how


FAR = (3, 0, 1, 1)
"""Batch 8 without checkpointing."""


@pytest.mark.parametrize(
    ("confirmed_last", "line"),
    [
        (
            (FAR, GIVEN, (2, 0, 1, 1)),
            "runner-up: the chosen setting with batch_size = 4: 20.0 % slower (-20.3 "
            "to -19.7 %)",
        ),
        (
            (FAR, GIVEN),
            "runner-up: the chosen setting with activation_checkpointing = full: 10.0 "
            "% slower, not confirmed",
        ),
    ],
)
def test_the_runner_up_differs_from_the_chosen_setting(confirmed_last, line):
    """One that ran beside it comes first, except the baseline."""
    speeds = {FAR: 200, (3, 1, 1, 1): 180, (2, 0, 1, 1): 160, GIVEN: 100}
    found = decided(
        ("baseline", ran(GIVEN)),
        *(("search", ran(point, speed)) for point, speed in speeds.items()),
        *confirmed(*[ran(point, speeds[point]) for point in confirmed_last] * 2),
    )
    assert [message(f) for f in found.findings if f.code == "runner-up"] == [line]


@each(
    ("value", "pairs", "ending"),
    [
        (0.8, 1, "20.0 % slower (1 pair of runs)"),
        (1.2, 1, "not clearly faster or slower (1 pair of runs)"),
        (1.2, 0, "not clearly faster or slower, not confirmed"),
    ],
)
def test_few_pairs_of_runs_do_not_contradict_the_choice(value, pairs, ending):
    facts = {"gain": Estimate(value), "pairs": pairs, "objective": SPEED}
    assert behind(facts) == ending


def test_trials_at_the_same_time_are_told():
    by = [{"worker": name, "at_s": 9.0 * at} for at, name in enumerate("ab")]
    runs = [ran(p, 100, more=more) for p, more in zip((GIVEN, BEST), by, strict=True)]
    found = decided(("baseline", runs[0]), ("search", runs[1])).findings
    (several,) = (finding for finding in found if finding.code == "several-workers")
    assert message(several) == "up to 2 trials ran at the same time"
