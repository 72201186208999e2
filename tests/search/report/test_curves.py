"""Losses and step times, as a report shows them."""

import re

import pytest

from fp8tune.search.report.curves import Pair, Steps, pair, timed
from fp8tune.search.report.figures.canvas import LIGHT, Style, files
from fp8tune.search.report.figures.loss import loss
from fp8tune.search.report.figures.steps import steps
from fp8tune.search.report.tables import every_trial
from tests.search.report.studies import STEPS, WHOLE, shown, told
from tests.search.tries import BEST, GIVEN, TWIN, ran


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
        for stage, point, fp8 in (
            ("baseline", GIVEN, True),
            ("bf16-baseline", TWIN, False),
        )
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
        Steps("chosen", "batch 4, AC full", "fp8", each, 15),
        Steps("your config", "batch 2, AC full", "fp8", each, 10),
        Steps("bf16 baseline", "batch 4, AC full", "bf16", each, 12),
        Steps("runner-up", "batch 2, AC none", "fp8", each, 11),
    ]
    assert (found[0].median, found[0].discarded) == (100.0, 2)


HOW = {"extrapolated": "from 8 and 16 of 32 blocks, which fit this GPU"}


@pytest.mark.parametrize(
    ("times", "more", "title", "about"),
    [
        (
            STEPS,
            {},
            "Steps are steady to 1 % (chosen = your config; 2",
            "of 3 steps, 2",
        ),
        (
            (250.0,),
            HOW,
            "The time of a step is extrapolated: 250 ms (",
            "extrapolated, ",
        ),
        (
            STEPS[:1],
            {"all_step_ms": [900.0, 100.0]},
            "The time of a step is told by too few to be steady: 100 ms (",
            "median 100 ms of 1 step, 1 left out",
        ),
    ],
)
def test_one_time_is_not_steady(tmp_path, times, more, title, about):
    record = told(GIVEN, 100, more=more)._replace(step_ms=times)
    plot = steps(shown(tmp_path / "s", [("baseline", record)]))
    assert plot.title.startswith(title)
    assert about in plot.about
    assert set(files(plot)) == {"png", "svg"}


@pytest.mark.parametrize(
    ("speed", "said"),
    [(50_000, ["", ""]), (150_000, [", 15.0k tokens a step", ", 5.0k tokens a step"])],
)
def test_steps_of_other_tokens_say_so(tmp_path, speed, said):
    pairs = [("baseline", told(GIVEN, 50_000)), ("search", told(BEST, speed))]
    plot = steps(shown(tmp_path / "s", pairs))
    titles = [axes.get_title() for axes in plot.draw(Style(LIGHT)).axes]
    more = [re.split(r"batch \d", " ".join(title.split()))[1] for title in titles]
    assert more == said


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
    found = timed(shown(tmp_path / "s", [("baseline", record)]))[0]
    assert [why for _, _, why in found.steps] == reasons
    figure = steps(shown(tmp_path / "s", []))
    assert [row[-1] for row in figure.rows[:2]] == [
        f"no: {reasons[0]}",
        f"no: {reasons[1]}" if reasons[1] else "yes",
    ]


def test_steps_of_a_record_that_has_no_others(tmp_path):
    bare = told(GIVEN, 100, more={"all_step_ms": []})
    (found,) = timed(shown(tmp_path / "s", [("baseline", bare)]))
    assert found.steps == ((1, 100.0, ""), (2, 101.0, ""), (3, 99.0, ""))


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
    (row,) = every_trial(shown(tmp_path / "s", [("baseline", record)]))
    assert row[-1].startswith(said)
    assert bool(row[-1]) == bool(said)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([1, 2.5], (1.0, 2.5)),
        ([1, None, 2], (1.0,)),
        ([1, True], (1.0,)),
        ([1, "2"], (1.0,)),
        ([1, 10**400], (1.0,)),
        ([None, 1], ()),
        ([], ()),
        ("12", ()),
        ({}, ()),
        (None, ()),
    ],
)
def test_a_series_is_read_up_to_what_is_no_number(value, found):
    assert ran(GIVEN, more={"losses": value}).losses == found
