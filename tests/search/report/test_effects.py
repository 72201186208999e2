"""What each knob did, as a report shows it."""

from fp8tune.search.report.effects import Effect, Line, effects
from fp8tune.search.report.page import figures
from fp8tune.search.report.story import story
from tests.search.report.studies import WHOLE, confirmed, shown, told
from tests.search.tries import BEST, GIVEN, OTHER, TWIN


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
