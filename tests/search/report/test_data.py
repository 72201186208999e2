"""What a report shows, as plain data."""

import pytest

from fp8tune.job import Target
from fp8tune.search.prior import Expected
from fp8tune.search.report.curves import Pair, Steps, pair, timed
from fp8tune.search.report.data import Setting, case, frontier, series
from fp8tune.search.report.effects import Effect, Line, effects
from fp8tune.search.report.figures.loss import loss
from fp8tune.search.report.figures.memory import memory
from fp8tune.search.report.figures.predicted import predicted, quantities
from fp8tune.search.report.figures.steps import steps
from fp8tune.search.report.page import figures, page
from fp8tune.search.report.saved import saved
from fp8tune.search.report.story import story
from fp8tune.search.report.tables import environment, every_trial
from fp8tune.search.report.words import label
from fp8tune.search.space import Knob
from fp8tune.search.statistics import Speed
from tests.search.report.studies import (
    FAILED,
    LARGER,
    STEPS,
    WHOLE,
    confirmed,
    plan,
    shown,
    study,
    told,
)
from tests.search.tries import BEST, GIVEN, KNOBS, OTHER, TWIN, ran


def test_settings(whole):
    rows = [
        (s.label, s.short, s.marked, s.free, s.outcome, s.runs, s.front)
        for s in whole.settings
    ]
    full2, none2 = "batch 2, AC full", "batch 2, AC none"
    full4, full8 = "batch 4, AC full", "batch 8, AC full"
    assert rows == [
        (f"{full2}, compiled, FP8", full2, "your config", True, "ok", 3, True),
        (f"{full2}, compiled, bf16", full2, "", False, "ok", 1, False),
        (f"{full4}, compiled, FP8", full4, "chosen", True, "ok", 3, True),
        (f"{none2}, compiled, FP8", none2, "runner-up", True, "ok", 1, False),
        (f"{full8}, compiled, FP8", full8, "", True, "oom", 1, False),
        (f"{full4}, compiled, bf16", full4, "bf16 twin", False, "ok", 2, False),
    ]
    assert (whole.capacity_gib, whole.ended) == (139.8, True)


def setting(name, speed, peak, free=True):
    measured = Speed(speed, speed, speed) if speed else None
    return Setting(
        *((name,), "", "", (), "", free, "ok", 1, measured, peak, peak, Expected()),
        before=measured,
    )


@pytest.mark.parametrize(
    ("settings", "front"),
    [
        ([], []),
        ([(1, 10, 5)], [1]),
        ([(1, 10, 5), (2, 20, 6), (3, 15, 7)], [1, 2]),
        ([(1, 10, 5), (2, 20, 5)], [2]),
        ([(1, 10, 5), (2, 10, 6)], [1]),
        ([(1, 10, 5), (2, 90, 4, False)], [1]),
        ([(1, 10, 5), (2, 90, 0), (3, 0, 4)], [1]),
    ],
)
def test_frontier(settings, front):
    assert frontier(setting(*one) for one in settings) == {(n,) for n in front}


def test_effects(whole):
    assert effects(whole) == [
        Effect(
            "train.batch_size",
            False,
            ("2", "4", "8"),
            (Line(True, ((0, 100.0), (1, 152.0)), ((2, "oom"),)),),
            "4 against 2: +50.0 %; 8 out of memory",
        ),
        Effect(
            "train.activation_checkpointing",
            False,
            ("none", "full"),
            (
                Line(False, ((0, 110.0), (1, 100.0)), ()),
                Line(True, ((1, 152.0),), ()),
            ),
            "full against none: -9.1 % (one pair)",
        ),
        Effect(
            "train.mixed_precision",
            True,
            ("bf16", "FP8"),
            (
                Line(False, ((0, 90.0), (1, 100.0)), ()),
                Line(True, ((0, 120.0), (1, 150.0)), ()),
            ),
            "FP8 against bf16: +25.0 %",
        ),
    ]


def test_a_gpu_that_became_slower_makes_no_knob_matter(tmp_path):
    """What was measured again ran at another time than the rest."""
    late = [told(GIVEN, 48), told(BEST, 52)]
    pairs = [
        ("given", told(GIVEN, 100)),
        ("twin", told(TWIN, 90, fp8=False)),
        ("search", told(OTHER, 98)),
        ("search", told(BEST, 104)),
        *confirmed(*late),
    ]
    found = shown(tmp_path / "s", pairs)
    plots = {figure.name: figure for figure in figures(found)}
    assert plots["knobs"].title == (
        "mixed_precision matters most: up to 1.11 times the tokens/s"
    )
    assert plots["knobs"].note.startswith("A line joins trials of one time: before")
    assert plots["memory"].title == (
        "batch 4, AC full: 104 tokens/s in 40.0 GiB, the fastest of 3 settings that "
        "may be chosen"
    )
    assert plots["memory"].note.endswith("the trials before the confirmation.")
    assert [s.short for s in found.settings if s.front] == [
        "batch 2, AC full",
        "batch 4, AC full",
    ]
    assert (  # the given one is 7.7 % behind
        "Runner-up: batch 2, AC none, compiled, FP8, 98 tokens/s: -5.8 % beside the "
        "chosen one, not measured again, by the trials before the confirmation."
    ) in story(found).sentences


def test_one_setting_has_no_effects(tmp_path):
    assert effects(shown(tmp_path / "s", WHOLE[:1])) == []


def test_loss(whole):
    fp8, bf16 = (6.0, 5.0, 4.0, 3.03), (6.0, 5.0, 4.0, 3.0)
    norms = (2.0, 1.5, 1.0, 0.5)
    found = pair(whole)
    assert found == Pair("batch 4, AC full, compiled", fp8, bf16, norms, norms)
    assert found.gaps == pytest.approx((0, 0, 0, 0.01))


@pytest.mark.parametrize(
    ("step", "parts", "said"),
    [
        (1 / 32, 1, "FP8's loss is within 1 % of bf16's for 3 steps, rounding to bf16"),
        (1 / 256, 8, "FP8's loss is within 0.56 % of bf16's for 3 steps, rounding to"),
        (1 / 256, 1, "FP8's loss is within 0.063 % of bf16's for 3 steps"),
    ],
)
def test_losses_that_are_rounded_claim_no_more_than_their_digits(
    tmp_path, step, parts, said
):
    """A trainer computes its loss in bf16: 8 bits, 1/32 at a loss of 6."""
    series = {True: [6.25, 6.25 + step, 6.25], False: [6.25, 6.25, 6.25 - step]}
    pairs = [
        (
            stage,
            told(point, 100, fp8, more={"losses": series[fp8], "grad_accum": parts}),
        )
        for stage, point, fp8 in (("given", GIVEN, True), ("twin", TWIN, False))
    ]
    plot = loss(shown(tmp_path / "s", pairs))
    assert plot.title.startswith(said)
    assert ("were rounded to bf16" in plot.note) == ("rounding" in plot.title)


def test_loss_of_the_given_setting_where_the_chosen_has_none(tmp_path):
    bare = told(BEST, 150, more={"losses": "?"})
    found = pair(shown(tmp_path / "s", [*WHOLE[:2], ("search", bare)]))
    assert found.label == "batch 2, AC full, compiled"


def test_no_loss_without_a_twin(tmp_path):
    assert pair(shown(tmp_path / "s", WHOLE[:1])) is None


def test_steps(whole):
    kept = [(n, took, "") for n, took in enumerate(STEPS, 2)]
    each = ((0, 3e4, "left out"), (1, 120.0, "left out"), *kept)
    found = timed(whole)
    assert found == [
        Steps("chosen", "batch 4, AC full", "fp8", each),
        Steps("your config", "batch 2, AC full", "fp8", each),
        Steps("bf16 twin", "batch 4, AC full", "bf16", each),
        Steps("runner-up", "batch 2, AC none", "fp8", each),
    ]
    assert (found[0].median, found[0].discarded) == (100.0, 2)


@pytest.mark.parametrize(
    ("discarded", "reasons"),
    [
        (
            [
                {"first": 0, "last": 0, "why": "warm-up"},
                {"first": 2, "last": 2, "why": "throttled"},
            ],
            ["warm-up", "", "throttled", ""],
        ),
        (
            [{"first": 0, "last": 10**12, "why": "all"}],
            ["left out", "left out", "", ""],
        ),
        ("none", ["left out", "left out", "", ""]),
        ([{"first": "0", "last": 1, "why": "x"}, 3], ["left out", "left out", "", ""]),
    ],
)
def test_why_steps_were_left_out(tmp_path, discarded, reasons):
    """Also where one that was left out took as long as one that counts."""
    more = {"all_step_ms": [100.0, 101.0, 101.0, 100.0], "discarded": discarded}
    record = told(GIVEN, 100, more=more)._replace(step_ms=(101.0, 100.0))
    found = timed(shown(tmp_path / "s", [("given", record)]))[0]
    assert [why for _, _, why in found.steps] == reasons
    figure = steps(shown(tmp_path / "s", []))
    assert [row[-1] for row in figure.rows[:2]] == [
        f"no: {reasons[0]}",
        f"no: {reasons[1]}" if reasons[1] else "yes",
    ]


def test_steps_of_a_record_that_has_no_others(tmp_path):
    bare = told(GIVEN, 100, more={"all_step_ms": []})
    (found,) = timed(shown(tmp_path / "s", [("given", bare)]))
    assert found.steps == ((1, 100.0, ""), (2, 101.0, ""), (3, 99.0, ""))


def test_predictions(whole):
    memory, speed = quantities(whole)
    ran_with = [s for s in whole.settings if s.speed]
    assert memory.pairs == tuple((s, s.expected.peak_gib, s.peak_gib) for s in ran_with)
    assert [got for _, _, got in speed.pairs] == [s.speed.value for s in ran_with]


def test_predictions_are_skipped_where_the_gpus_are_not_said(tmp_path):
    unsaid = plan(target=Target())
    assert quantities(case(saved(study(tmp_path / "s", made=unsaid)))) == []


@pytest.mark.parametrize(
    ("pairs", "said"),
    [(FAILED, "No trial succeeded"), ([("given", ran(GIVEN))], "No estimate covers")],
)
def test_why_no_prediction_is_shown(tmp_path, pairs, said):
    made = plan(target=Target())
    told_case = case(saved(study(tmp_path / "s", pairs, made)))
    assert predicted(told_case).why.startswith(said)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((100.0, 100.0, 100.0, 150.0), "steps take +12.5 % on average, beside their"),
        ((100.0, 101.0, 99.0, 100.0), ""),
        ((100.0, 100.0, 200.0), ""),
    ],
)
def test_a_median_that_a_long_run_does_not_keep_is_remarked(tmp_path, times, said):
    record = told(GIVEN, 100)._replace(step_ms=times)
    (row,) = every_trial(shown(tmp_path / "s", [("given", record)]))
    assert row[-1].startswith(said)
    assert bool(row[-1]) == bool(said)


def test_every_trial(whole):
    rows = every_trial(whole)
    assert rows[0] == (
        "3",
        "search",
        "batch 4, AC full, compiled, FP8",
        "ok",
        "152 ± 1.3 %",
        "-",
        "40.0",
        "44.0",
        "84",
        "60 s",
        "",
    )
    assert rows[-1][3:] == ("oom", *"-----", "60 s", "CUDA out of memory")
    assert len(rows) == len(WHOLE)


def test_environment(whole):
    found = dict(environment(whole))
    assert found["trials ran on"] == "NVIDIA H200, torch 2.13.0"
    assert found["target"] == "1 GPU, h200"
    assert found["GPU memory"] == "139.8 GiB"


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        (KNOBS[2], False, "eager"),
        (Knob("a.b", (1, 2)), 2, "b 2"),
        (Knob("a.b", ("x",)), "x", "x"),
        (Knob("a.b", (None,)), None, "b not set"),
        (Knob("a.b", ("\u202e",)), "\u202e", "\\u202e"),
        (Knob("a.b", ("x" * 99,)), "x" * 99, "x" * 20 + " ..."),
    ],
)
def test_labels(knob, value, words):
    assert label([knob], (knob.values.index(value),)) == words


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([1, 2.5], (1.0, 2.5)),
        ([1, None], ()),
        ([1, True], ()),
        ([1, "2"], ()),
        ([1, 10**400], ()),
        ([], ()),
        ("12", ()),
        ({}, ()),
        (None, ()),
    ],
)
def test_series(value, found):
    assert series(ran(GIVEN, more={"x": value}), "x") == found


def test_a_trial_that_ended_early_is_a_bound_everywhere(tmp_path):
    cut = ("search", told(LARGER, 90, more={"censored": True}))
    found = shown(tmp_path / "s", [*WHOLE, cut])
    (setting,) = (s for s in found.settings if s.point == LARGER)
    assert (setting.speed, setting.under, setting.outcome) == (None, 90.0, "ok")
    assert not setting.front
    (row,) = (row for row in every_trial(found) if "under 90" in row)
    assert row[-1].startswith("ended early: surely slower than the best")
    assert any("under 90" in row for row in memory(found).rows)
    batch = effects(found)[0]
    assert [how for line in batch.lines for _, how in line.failed] == [
        "under 90 tokens/s"
    ]
    assert "ended early" in page(found, figures(found))


def test_an_earlier_study_is_named_and_its_trials_are_not_counted(tmp_path):
    start = {"study": ".fp8tune/old", "said": "starts from old: another replay"}
    told = story(shown(tmp_path / "s", WHOLE, start=start)).sentences
    line = "The search starts from old: another replay. None of that study's trials is"
    assert [sentence for sentence in told if sentence.startswith(line)]
    plain = story(shown(tmp_path / "t", WHOLE, start={"study": ""})).sentences
    assert len(plain) == len(told) - 1
