"""The plots of a report: what they say, and that each one can be drawn."""

from xml.etree import ElementTree

import pytest

from fp8tune.report.curves_plot import loss_plot
from fp8tune.report.html import draw_plots
from fp8tune.report.knobs_plot import knob_effects, knobs_plot
from fp8tune.report.plots import to_svg
from fp8tune.report.steps_plot import step_times
from tests.report.checker import checked, html
from tests.report.studies import (
    CUT_OFF,
    STEPS,
    WHOLE,
    confirmed,
    report_of,
    told,
)
from tests.search.losses.runs import STEPS as LOSS_STEPS
from tests.search.losses.runs import learned, seeds
from tests.search.tries import BEST, BF16, GIVEN, OTHER, but, ran


def test_all_plots_are_drawn(tmp_path):
    report = compared(tmp_path / "s", [*seeds(), *seeds("fp8", 0.001)])
    drawn = {plot.name: to_svg(plot) for plot in draw_plots(report)}
    assert list(drawn) == ["memory", "knobs", "loss", "steps"]
    for text in drawn.values():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(--ink)" in text


def test_a_rehearsal_tells_nothing_of_the_precision(tmp_path):
    effects = knob_effects(report_of(tmp_path / "s", device="cpu"))
    assert "train.mixed_precision" not in {effect.name for effect in effects}


def test_a_cut_off_setting_is_no_failure_of_its_knob(tmp_path, monkeypatch):
    marks = []
    monkeypatch.setattr(
        "fp8tune.report.knobs_plot.mark_failed",
        lambda _, places, *__: marks.append(places),
    )
    lost = ("search", ran((0, 1, 1, 1), outcome="hang"), CUT_OFF)
    plot = knobs_plot(report_of(tmp_path / "s", [*WHOLE[:5], lost]))
    assert plot.rows[0][3] == "1: cut-off; 8: oom"
    to_svg(plot)
    assert marks == [[3]]


def test_where_no_two_settings_ran_nothing_is_drawn(tmp_path):
    plot = knobs_plot(report_of(tmp_path / "s", WHOLE[:1]))
    assert plot.draw is None
    assert plot.note.startswith("No panel for train.batch_size, ")


def compared(folder, runs, **about):
    losses = (("stability", learned(run)) for run in runs)
    return report_of(folder, [*WHOLE, *losses], **about)


def test_losses_of_a_stability_check(tmp_path):
    report = compared(tmp_path / "s", [*seeds(), *seeds("fp8", 0.001)])
    plot = loss_plot(report)
    assert plot.title.startswith("FP8 stays inside the spread of bf16 seeds: loss ")
    assert "200B tokens" in plot.note
    assert "batch 4, AC full, compiled" in plot.note
    assert len(plot.rows) == LOSS_STEPS
    assert float(plot.rows[-1][-1]) == pytest.approx(0.1, abs=0.5)
    checked(html(report))


def test_runs_that_diverged_end_early(tmp_path):
    lost = [
        r._replace(nan=True, losses=r.losses[:9], grad_norms=()) for r in seeds("fp8")
    ]
    plot = loss_plot(compared(tmp_path / "s", [*seeds(), *lost]))
    assert (len(plot.rows), plot.rows[-1][1]) == (LOSS_STEPS, "-")
    assert to_svg(plot).startswith("<svg")


def test_without_a_stability_check_no_losses_are_shown(whole):
    plot = loss_plot(whole)
    assert (plot.draw, plot.note) == (None, "No runs compare FP8's losses with bf16's.")


def test_step_times(tmp_path):
    warm = [{"first": 0, "last": 1, "why": "warm-up"}]
    trials = [
        (stage, but(record, discarded=warm) if record.ok else record)
        for stage, record in WHOLE
    ]
    times = step_times(report_of(tmp_path / "s", trials))
    counted = [(step, took, "") for step, took in enumerate(STEPS, 2)]
    steps = ((0, 3e4, "warm-up"), (1, 120.0, "warm-up"), *counted)
    names = ["chosen", "your config", "bf16 baseline", "runner-up"]
    assert [(one.role, one.steps) for one in times] == [(name, steps) for name in names]
    assert times[0].median == 100.0


@pytest.mark.parametrize(
    ("times", "discarded", "reasons"),
    [
        (
            [101.0, 100.0],
            [
                {"first": 0, "last": 0, "why": "warm-up"},
                {"first": 2, "last": 2, "why": "throttled"},
            ],
            ["warm-up", "", "throttled", ""],
        ),
        ([101.0, 100.0], [{"first": 0, "last": 10**12, "why": "all"}], ["", ""]),
        ([101.0, 100.0], "none", ["", ""]),
        ([101.0], "none", None),
    ],
)
def test_why_steps_were_left_out(tmp_path, times, discarded, reasons):
    """Also if one that was left out took as long as one that counts."""
    more = {"all_step_ms": [100.0, 101.0, 101.0, 100.0], "discarded": discarded}
    record = told(GIVEN, 100, more=more)._replace(step_ms=tuple(times))
    found = step_times(report_of(tmp_path / "s", [("baseline", record)]))
    told_by = [[why for _, _, why in one.steps] for one in found]
    assert told_by == ([reasons] if reasons else [])


def test_steps_of_a_record_without_the_others(tmp_path):
    bare = told(GIVEN, 100, more={"all_step_ms": []})
    (times,) = step_times(report_of(tmp_path / "s", [("baseline", bare)]))
    assert times.steps == ((0, 100.0, ""), (1, 101.0, ""), (2, 99.0, ""))


def test_a_machine_that_became_slower_makes_no_knob_matter(tmp_path):
    """What was measured again ran at another time than the rest."""
    trials = [
        ("baseline", told(GIVEN, 100)),
        ("bf16-baseline", told(BF16, 90, fp8=False)),
        ("search", told(OTHER, 98)),
        ("search", told(BEST, 104)),
        *confirmed(told(GIVEN, 48), told(BEST, 52)),
    ]
    report = report_of(tmp_path / "s", trials)
    gains = {effect.name: round(effect.gain, 3) for effect in knob_effects(report)}
    assert gains == {
        "train.batch_size": round(52 / 48, 3),
        "train.activation_checkpointing": round(48 / (98 / 2), 3),
        "train.mixed_precision": round(48 / (90 / 2), 3),
    }


def test_a_knob_is_compared_with_the_baseline_s_value_where_both_ran(tmp_path):
    """With other settings of the rest if need be; what is stated is what is drawn."""
    best, slower, far = (2, 0, 1, 1), (2, 1, 1, 1), (3, 0, 1, 1)
    trials = [
        ("baseline", told(GIVEN, 100)),
        ("search", told(best, 300)),
        ("search", told(slower, 200)),
        ("search", told(far, 290)),
        *confirmed(told(best, 360), told(GIVEN, 90)),
    ]
    report = report_of(tmp_path / "s", trials)
    effects = {effect.name: effect for effect in knob_effects(report)}
    batch = effects["train.batch_size"]
    assert batch.sentence == "4 against 2: +122.2 % (other settings)"
    assert [line.values for line in batch.lines] == [
        pytest.approx({0: 90, 1: 200}),
        pytest.approx({1: 360, 2: 290}),
    ]
    ac = effects["train.activation_checkpointing"]
    assert ac.sentence == "none against full: +50.0 %"
    assert knobs_plot(report).title.startswith("batch_size matters most: 4 against 2")


def test_a_knob_s_effect_is_inconclusive_by_one_pair_of_runs(tmp_path):
    """The sentence has the ratio that is drawn: a single pair may say the opposite."""
    without_ac = (2, 0, 1, 1)
    trials = [
        ("baseline", told(GIVEN, 100)),
        ("search", told(BEST, 250)),
        ("search", told(without_ac, 200)),
        ("confirm", told(BEST, 300)),
        ("confirm", told(GIVEN, 100)),
        ("confirm", told(without_ac, 200)),
        ("confirm", told(BEST, 150)),
    ]
    effects = {e.name: e for e in knob_effects(report_of(tmp_path / "s", trials))}
    ac = effects["train.activation_checkpointing"]
    assert ac.sentence == "full against none: +50.0 % (inconclusive)"
