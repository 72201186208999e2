"""Settings that ran and may not be chosen all the same: what a report makes of them."""

import pytest

from fp8tune.search.report.figures.canvas import files
from fp8tune.search.report.figures.memory import memory
from fp8tune.search.report.story import story
from fp8tune.search.report.tables import every_trial
from tests.search.report.studies import LARGER, WHOLE, evidence, shown, told
from tests.search.stability.runs import learned, seeds
from tests.search.tries import BEST, GIVEN, ran

FULL = told(LARGER, 190, reserved_gib=131.5)
RETRIED = told(LARGER, 190, more=evidence(alloc_retries=3))
FAILS = ran(LARGER, outcome="oom")
WHY = "94.1 % of the GPU's memory reserved, over 92 %"
ELSE = "failed in another run: out of memory"


def settled(folder, *records):
    """A whole search, with those instead of the setting that ran out of memory."""
    kept = [(stage, r) for stage, r in WHOLE if r.ok]
    return shown(folder, [*kept, *(("search", record) for record in records)])


@pytest.mark.parametrize(
    ("records", "why", "said", "sentence"),
    [
        ([FULL], WHY, f"may not be chosen: {WHY}", ", 1 setting with too little"),
        (
            [RETRIED],
            "3 allocator retries",
            "may not be chosen: 3 allocator retries",
            ", 1 setting with too little memory left, 11 min.",
        ),
        ([told(LARGER, 190), FAILS], ELSE, "", "12 trials, 1 out of"),
    ],
)
def test_what_is_not_sound_is_off_the_frontier(tmp_path, records, why, said, sentence):
    case = settled(tmp_path / "s", *records)
    setting = case.of_point(LARGER)
    assert (setting.unfit, setting.free, setting.front) == (why, False, False)
    assert case.found.chosen == BEST
    plot = memory(case)
    assert plot.title == (
        "batch 4, AC full: 152 tokens/s in 40.0 GiB, the fastest of 3 settings that "
        "may be chosen; one that may not be chosen is faster"
    )
    row = next(row for row in plot.rows if row[0] == setting.label)
    assert (row[2], row[-1]) == (f"ok, may not be chosen: {why}", "")
    label = f"Hollow, as they may not be chosen: {setting.label} ({why})."
    assert label in plot.note
    assert set(files(plot)) == {"png", "svg"}
    (trial,) = (row for row in every_trial(case) if row[4].startswith("190"))
    assert trial[-1] == said
    assert sentence in story(case).sentences[-1]


def test_what_diverges_is_off_the_frontier(tmp_path):
    runs = [*seeds(), *(run._replace(nan=True) for run in seeds("fp8"))]
    case = shown(
        tmp_path / "s", [*WHOLE, *(("stability", learned(run)) for run in runs)]
    )
    assert case.found.chosen is None
    ran_in_fp8 = [s for s in case.settings if s.precision == "fp8" and s.speed]
    assert {(s.unfit, s.front) for s in ran_in_fp8} == {("FP8 diverges", False)}
    assert not any(s.unfit for s in case.settings if s.precision == "bf16")


def test_the_given_setting_may_be_all_there_is(tmp_path):
    case = shown(tmp_path / "s", [("baseline", told(GIVEN, 80, reserved_gib=131.5))])
    (only,) = case.settings
    assert (only.unfit, only.marked, only.front) == (WHY, "chosen = your config", False)
    assert (
        memory(case).title == "batch 2, AC full, compiled, FP8: 80 tokens/s in 30.0 GiB"
    )
    assert set(files(memory(case))) == {"png", "svg"}
