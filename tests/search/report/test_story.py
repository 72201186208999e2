"""What a report says first: how the search went, and what must be known."""

import pytest

from fp8tune.search.report.story import Story, story
from tests.search.report.studies import WHOLE, confirmed, shown, told
from tests.search.tries import BEST, GIVEN, OTHER, TWIN, ran


def test_story(whole):
    assert story(whole) == Story(
        (),
        "Faster: +50.0 % tokens/s over your config",
        (
            "batch_size = 4: 100 (99.1 to 101) -> 150 (149 to 151) tokens/s, +50.0 % "
            "(+48.0 % to +52.0 %).",
            "Peak memory 40.0 of 139.8 GiB allocated, 44.0 reserved.",
            "FP8 against bf16 (batch 4, AC full, compiled, bf16): +25.0 %; bf16 does "
            "120 (119 to 121).",
            "Runner-up: batch 2, AC none, compiled, FP8, 110 (-26.7 %).",
            "Stability was not checked: no run compares FP8's losses with bf16's.",
            "11 trials of 6 settings, 1 out of memory, 11 min. Intervals are 95 % and "
            "count the spread between fresh runs.",
        ),
        ("diff a.toml a.tuned.toml", "fp8tune lint a.tuned.toml"),
    )


FAILED = [("given", ran(GIVEN, outcome="oom")), ("search", ran(OTHER, outcome="hang"))]
MINE, MINE_TWIN = told(GIVEN, 80), told(TWIN, 100, fp8=False)
SLOW = [("given", MINE), ("twin", MINE_TWIN), *confirmed(MINE, MINE_TWIN)]
MORE = [("given", MINE), ("search", told(OTHER, 50)), *confirmed(MINE)]
GOOD_TWIN = told(TWIN, 70, fp8=False)


@pytest.mark.parametrize(
    ("pairs", "headline", "command"),
    [
        ([], "No trial has ended yet", "--budget 2h  # goes on"),
        (FAILED, "No trial succeeded", "--budget 2h  # goes on"),
        (SLOW, "bf16 is faster: FP8 reaches 80.0 % of its speed", "--allow precision"),
        (
            [("given", MINE), *confirmed(MINE, GOOD_TWIN)],
            "No other setting ran: your config stays",
            "lint a.toml",
        ),
        (
            [*MORE, *confirmed(GOOD_TWIN)],
            "Your config is already the best that was measured",
            "lint a.toml",
        ),
        (
            [("given", ran(GIVEN, outcome="oom")), ("search", told(OTHER, 50))],
            "A setting that runs",
            "--budget 2h  # goes on",
        ),
        (WHOLE[:3], "Faster: +52.0 %", "--budget 2h  # goes on"),
    ],
)
def test_headlines(tmp_path, pairs, headline, command):
    said = story(shown(tmp_path / "s", pairs))
    assert said.headline.startswith(headline)
    assert command in said.commands[0]


@pytest.mark.parametrize(
    ("pairs", "about", "warnings"),
    [
        (WHOLE, {}, []),
        (WHOLE, {"device": "cpu"}, ["A rehearsal on a CPU"]),
        (WHOLE, {"records": "ab12"}, ["A replay of recorded trials"]),
        (WHOLE[:3], {}, ["Not all is confirmed"]),
        ([], {}, ["Not all is confirmed"]),
        (
            [
                *WHOLE,
                ("confirm", told(BEST, 150, more={"extrapolated": "rank 0 of 8"})),
            ],
            {},
            ["Extrapolated, not measured whole (1 of 12 trials): rank 0 of 8."],
        ),
        (
            [*WHOLE, ("confirm", told(BEST, 150, more={"rehearsal": True}))],
            {},
            ["A rehearsal on a CPU"],
        ),
    ],
)
def test_what_must_be_known_first(tmp_path, pairs, about, warnings):
    said = story(shown(tmp_path / "s", pairs, **about)).warnings
    assert len(said) == len(warnings)
    assert all(a.startswith(b) for a, b in zip(said, warnings, strict=True))
