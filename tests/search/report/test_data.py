"""What a report shows, as plain data."""

import pytest

from fp8tune.job import Target
from fp8tune.search.report.data import Setting, case, frontier
from fp8tune.search.report.figures.predicted import predicted, quantities
from fp8tune.search.report.story import story
from fp8tune.search.report.tables import environment, every_trial
from fp8tune.search.report.words import label
from fp8tune.search.sampler import Expected
from fp8tune.search.saved import load_study
from fp8tune.search.statistics import Speed
from fp8tune.trials.space import Knob
from tests.search.report.studies import FAILED, WHOLE, plan, shown, study
from tests.search.tries import GIVEN, KNOBS, ran


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
        (f"{full4}, compiled, bf16", full4, "bf16 baseline", False, "ok", 2, False),
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


def test_predictions(whole):
    memory, speed = quantities(whole)
    ran_with = [s for s in whole.settings if s.speed]
    assert memory.pairs == tuple((s, s.expected.peak_gib, s.peak_gib) for s in ran_with)
    assert [got for _, _, got in speed.pairs] == [s.speed.value for s in ran_with]


def test_predictions_are_skipped_where_the_gpus_are_not_said(tmp_path):
    unsaid = plan(target=Target())
    assert quantities(case(load_study(study(tmp_path / "s", made=unsaid)))) == []


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (FAILED, "No trial succeeded"),
        ([("baseline", ran(GIVEN))], "No estimate covers"),
    ],
)
def test_why_no_prediction_is_shown(tmp_path, pairs, said):
    made = plan(target=Target())
    told_case = case(load_study(study(tmp_path / "s", pairs, made)))
    assert predicted(told_case).why.startswith(said)


def test_every_trial(whole):
    rows = every_trial(whole)
    assert rows[0] == (
        "3",
        "search",
        "batch 4, AC full, compiled, FP8",
        "ok",
        "152 (150 to 154)",
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


def test_an_earlier_study_is_named_and_its_trials_are_not_counted(tmp_path):
    start = {"study": ".fp8tune/old", "said": "starts from old: another replay"}
    told = story(shown(tmp_path / "s", WHOLE, start=start)).sentences
    line = "The search starts from old: another replay. None of that study's trials is"
    assert [sentence for sentence in told if sentence.startswith(line)]
    plain = story(shown(tmp_path / "t", WHOLE, start={"study": ""})).sentences
    assert len(plain) == len(told) - 1
