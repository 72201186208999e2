"""What a report says of a comparison: the figure, the sentences, the table."""

import pytest

from fp8tune.search.report.curves import seeds as shown_seeds
from fp8tune.search.report.figures.canvas import Figure, files
from fp8tune.search.report.figures.loss import loss
from fp8tune.search.report.story import story
from fp8tune.search.report.tables import every_trial
from tests.search.report.checker import checked, html
from tests.search.report.studies import WHOLE, plan, shown
from tests.search.stability.runs import (
    BEST_TWIN,
    STEPS,
    climbing,
    curve,
    learned,
    seeds,
)
from tests.search.tries import KNOBS, but


def compared(folder, runs, before=WHOLE, **about):
    stage = (("stability", learned(run)) for run in runs)
    return shown(folder, [*before, *stage], **about)


def lost(run):
    return run._replace(nan=True, losses=run.losses[:9], norms=run.norms[:9])


INSIDE = [*seeds(), *seeds("fp8", 0.001)]
DIVERGED = [*seeds(), *map(lost, seeds("fp8"))]


def test_the_band_of_bf16_seeds_and_fp8_in_it(tmp_path):
    case = compared(tmp_path / "s", INSIDE)
    found = shown_seeds(case)
    assert found.label == "batch 4, AC full, compiled"
    assert [len(one) for one in found[2:]] == [3, 3, 3, 3]
    assert found.gaps[0][-1] == pytest.approx(0.001, abs=0.005)
    plot = loss(case)
    assert isinstance(plot, Figure)
    assert plot.title.startswith("FP8 stays inside the spread of bf16 seeds: loss ")
    assert "200B tokens" in plot.note
    assert len(plot.rows) == STEPS
    assert set(files(plot)) == {"png", "svg"}
    checked(html(case))


@pytest.mark.parametrize("about", [{}, {"records": "a.jsonl"}])
def test_the_same_data_is_not_said_of_records_that_do_not_tell_it(tmp_path, about):
    told = loss(compared(tmp_path / "s", INSIDE, **about))
    assert ("the same data" in told.about) is (not about)
    pair = [(stage, but(record, losses=[5.0, 4.0])) for stage, record in WHOLE]
    told = loss(compared(tmp_path / "p", [], pair, **about))
    assert ("the same data and seed in both" in told.note) is (not about)
    assert ("is not told" in told.note) is bool(about)


def test_runs_that_diverged_end_early(tmp_path):
    case = compared(tmp_path / ".fp8tune/s", DIVERGED)
    assert case.found.chosen is None
    told = story(case)
    assert told.headline == "No setting is proposed: FP8 diverges where bf16 does not"
    assert told.warnings[0].startswith("Rejected: batch_size = 4: FP8 diverged in 3")
    assert told.commands == ("fp8tune search a.toml --budget 2h --allow precision",)
    plot = loss(case)
    assert (len(plot.rows), plot.rows[-1][1]) == (STEPS, "-")
    assert set(files(plot)) == {"png", "svg"}
    checked(html(case))


def test_one_nan_that_no_run_of_bf16_has_rejects_and_is_the_headline(tmp_path):
    fp8 = seeds("fp8")
    case = compared(tmp_path / "s", [*seeds(), lost(fp8[0]), *fp8[1:]])
    told = story(case)
    assert told.headline == "No setting is proposed: FP8 diverges where bf16 does not"
    assert told.warnings[0].startswith("Rejected: batch_size = 4: FP8 diverged in 1")


def test_one_run_that_climbs_is_warned_of_and_the_headline(tmp_path):
    fp8 = seeds("fp8")
    case = compared(tmp_path / "s", [*seeds(), climbing(fp8[0]), *fp8[1:]])
    told = story(case)
    assert told.headline == "Inconclusive: FP8 may diverge"
    assert told.warnings[0].startswith("FP8 may diverge: it did in 1 of 3 seeds")
    assert case.found.verdict == "inconclusive"


def test_bf16_in_its_place_says_above_the_headline_why(tmp_path):
    runs = [("stability", learned(run)) for run in DIVERGED]
    free = plan(knobs=[knob._replace(frozen=False) for knob in KNOBS])
    case = shown(tmp_path / "s", [*WHOLE, *runs], free, allow=["precision"])
    assert case.found.chosen == BEST_TWIN
    start = "Rejected: batch_size = 4: FP8 diverged in 3 of 3 seeds, bf16 in 0"
    assert any(warning.startswith(start) for warning in story(case).warnings)


HARSH = [*seeds(given=2000), *map(lost, seeds("fp8", given=2000))]
OWN = {"warmup": 2000, "given": 2000}


def test_divergence_under_a_harsher_warmup_alone_is_the_headline(tmp_path):
    told = story(
        compared(tmp_path / "s", [*HARSH, *seeds(**OWN), *seeds("fp8", **OWN)])
    )
    assert told.headline == "Inconclusive: FP8 may diverge"
    (warning,) = told.warnings
    assert warning.startswith("FP8 may diverge: with a warmup of 8 steps it did in 3")
    assert warning.endswith(
        "past step 2000 in FP8 and in bf16, and compare the losses."
    )


def test_divergence_in_the_config_s_own_first_steps_is_what_is_drawn(tmp_path):
    own = [*seeds(**OWN), *(lost(run) for run in seeds("fp8", 0.01, **OWN))]
    case = compared(tmp_path / "s", [*HARSH, *own])
    assert story(case).headline.startswith("No setting is proposed: FP8 diverges")
    assert shown_seeds(case).fp8 == tuple(run.losses for run in own[3:])
    assert loss(case).title.endswith("(the config's first 32 steps, warmup 2000)")
    checked(html(case))


def test_nan_in_the_first_step_leaves_nothing_to_draw(tmp_path):
    runs = [*seeds(), *(lost(run)._replace(losses=()) for run in seeds("fp8"))]
    case = compared(tmp_path / "s", runs)
    assert shown_seeds(case) is None
    checked(html(case))


def test_the_sentences(tmp_path):
    said = story(compared(tmp_path / "s", INSIDE)).sentences
    assert any(line.startswith("Stability: FP8 stays inside") for line in said)
    assert any("not that it converges" in line for line in said)
    assert not any("Stability was not checked" in line for line in said)


def test_more_tokens_that_teach_less_are_warned_of(tmp_path):
    worse = compared(tmp_path / "s", [*seeds(), *seeds("fp8", 0.2)])
    (warning,) = story(worse).warnings
    assert warning.startswith("More tokens may not be worth it: FP8 is outside")


def test_its_runs_stand_in_the_table_without_a_speed(tmp_path):
    case = compared(tmp_path / "s", [*INSIDE, curve("fp8", seed=50, nan=True)])
    rows = {row[0]: row for row in every_trial(case)}
    own = [row for row in rows.values() if row[1] == "stability"]
    assert len(own) == 7
    assert {row[4] for row in own} == {"-"}
    assert own[0][-1] == f"seed 42, warmup 8, {STEPS} steps"
    # speeds and settings are those of the other trials alone
    assert [s.runs for s in case.settings] == [
        s.runs for s in shown(tmp_path / "other").settings
    ]
