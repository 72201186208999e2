"""What each knob did, as a report shows it."""

import pytest

from fp8tune.search.report.effects import Effect, Line, effects
from fp8tune.search.report.figures.canvas import Absent, files
from fp8tune.search.report.figures.knobs import knobs
from fp8tune.search.report.page import figures
from fp8tune.search.report.story import story
from tests.search.report.studies import WHOLE, confirmed, shown, told
from tests.search.tries import BEST, GIVEN, OTHER, TWIN, but, ran


def test_effects(whole):
    assert effects(whole) == [
        Effect(
            "train.batch_size",
            False,
            ("2", "4", "8"),
            (Line(True, ((0, 100.0), (1, 150.0)), ((2, "oom"),)),),
            "4 against 2: +50.0 % (+48.1 to +51.9); 8 out of memory",
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
            "FP8 against bf16: +25.0 % (+23.4 to +26.6)",
        ),
    ]


def test_a_gpu_that_became_slower_makes_no_knob_matter(tmp_path):
    """What was measured again ran at another time than the rest."""
    late = [told(GIVEN, 48), told(BEST, 52)]
    pairs = [
        ("baseline", told(GIVEN, 100)),
        ("bf16-baseline", told(TWIN, 90, fp8=False)),
        ("search", told(OTHER, 98)),
        ("search", told(BEST, 104)),
        *confirmed(*late),
    ]
    found = shown(tmp_path / "s", pairs)
    plots = {figure.name: figure for figure in figures(found)}
    assert plots["knobs"].title == (
        "mixed_precision matters most: up to 1.11 times the tokens/s"
    )
    assert plots["knobs"].note.startswith(
        "A line joins trials of one time: of the confirmation"
    )
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
        "Runner-up: batch 2, AC none, compiled, FP8, 98 tokens/s: -5.8 % "
        "beside the chosen one, not measured again, by the trials before the "
        "confirmation."
    ) in story(found).sentences


SLOW, SLOW_EAGER = (0, 1, 1, 1), (0, 1, 0, 1)
LOST = [("search", ran(point, outcome="oom")) for point in (SLOW, SLOW_EAGER)]
PLAIN = [(stage, record) for stage, record in WHOLE if record.ok]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([], "No two settings were tried that differ in train.compile_model alone."),
        (
            LOST,
            "Of the settings that differ in train.compile_model alone no two tell a "
            "figure.",
        ),
    ],
)
def test_why_a_knob_has_no_panel(tmp_path, more, why):
    plot = knobs(shown(tmp_path / "s", [*PLAIN, *more]))
    assert plot.note.endswith(why)


def test_where_no_two_settings_ran_nothing_is_drawn(tmp_path):
    why = "Of the settings that differ in one knob alone no two tell a figure."
    drawn = knobs(shown(tmp_path / "s", LOST))
    assert drawn == Absent("knobs", "What each knob did", why)


def test_a_setting_without_watts_has_no_tokens_per_joule(tmp_path):
    each = ((stage, but(record, tokens_per_joule=0.5)) for stage, record in PLAIN)
    pairs = [*each, ("search", told(SLOW, 50))]
    case = shown(tmp_path / "s", pairs, objective="tokens-per-joule")
    batch = next(e for e in effects(case) if e.name == "train.batch_size")
    (line,) = (line for line in batch.lines if line.chosen)
    assert (line.failed, dict(line.speeds).keys()) == (((0, "watts unknown"),), {1, 2})
    plot = knobs(case)
    assert [r[3] for r in plot.rows if r[:2] == (batch.name, "as chosen")] == [
        "1: watts unknown"
    ]
    assert set(files(plot)) == {"png", "svg"}


def test_one_setting_has_no_effects(tmp_path):
    assert effects(shown(tmp_path / "s", WHOLE[:1])) == []


def test_which_bf16_a_panel_and_the_answer_are_of(tmp_path):
    """The panel changes the precision alone; the answer has bf16 at its own best."""
    best, other = (1, 0, 1, 0), told((1, 0, 1, 0), 130, fp8=False)
    late = confirmed(told(BEST, 150), other, told(GIVEN, 100))
    case = shown(tmp_path / "s", [*PLAIN, ("search", other), *late])
    assert case.found.measured.pair.bf16 == best
    assert (
        "bf16 at its own best (batch 2, AC none, compiled, bf16)." in knobs(case).note
    )
