"""What a report says first: how the search went, and what must be known."""

import pytest

from fp8tune.job import Target
from fp8tune.search.report.data import case
from fp8tune.search.report.saved import saved
from fp8tune.search.report.story import Story, story
from fp8tune.search.report.tables import every_trial
from tests.search import tries
from tests.search.report.studies import (
    BEST_TWIN,
    CONFIG,
    FAILED,
    WHOLE,
    confirmed,
    plan,
    shown,
    study,
    told,
)
from tests.search.tries import BEST, GIVEN, OTHER, TWIN, ran


def test_story(whole):
    assert story(whole) == Story(
        (),
        "Faster: +50.0 % tokens/s (+48.1 to +51.9), 100 -> 150, 2 pairs of runs",
        (
            "Chosen: batch_size = 4.",
            "FP8 vs bf16: +25.0 % tokens/s (+23.4 to +26.6), bf16 reaches 120.",
            "Peak memory 40.0 of 139.8 GiB allocated, 44.0 reserved.",
            "Runner-up: batch 2, AC none, compiled, FP8, 110 tokens/s: -27.6 % "
            "beside the chosen one, not measured again, by the trials before the "
            "confirmation.",
            "11 trials, 1 out of memory, 11 min. Intervals are 95 % and count the "
            "spread between fresh runs.",
        ),
        ("diff a.toml a.tuned.toml", "fp8tune lint a.tuned.toml"),
    )


MINE, MINE_TWIN = told(GIVEN, 80), told(TWIN, 100, fp8=False)
SLOW = [("baseline", MINE), ("bf16-baseline", MINE_TWIN), *confirmed(MINE, MINE_TWIN)]
SLOWER, EVEN, FASTER = (told(TWIN, speed, fp8=False) for speed in (79, 80.5, 84.36))
LEVEL = [("baseline", MINE), *confirmed(MINE, EVEN)]
VAGUE = [("baseline", MINE), *tries.confirmed(MINE, SLOWER, FASTER, MINE)]
SLOWED = [
    *WHOLE[:5],
    *confirmed(told(BEST, 130), told(BEST_TWIN, 100, fp8=False), told(GIVEN, 88)),
    *confirmed(told(OTHER, 95), told(GIVEN, 88)),
]
PARTED = [
    *WHOLE[:5],
    *confirmed(told(BEST, 149), told(BEST_TWIN, 119, fp8=False), told(GIVEN, 80)),
]
"""The given one ran at 80 % of its speed, the others as before."""
MORE = [("baseline", MINE), ("search", told(OTHER, 50)), *confirmed(MINE)]
GOOD_TWIN = told(TWIN, 70, fp8=False)


@pytest.mark.parametrize(
    ("pairs", "headline", "command"),
    [
        ([], "No trial has ended yet", "--budget 2h  # goes on"),
        (FAILED, "No trial succeeded", "--budget 2h  # goes on"),
        (SLOW, "FP8 does not pay: -20.0 % tokens/s (", "--allow"),
        (
            LEVEL,
            "FP8 does not pay, it is as fast as bf16: -0.6 % tokens",
            "lint a.toml",
        ),
        (
            VAGUE,
            "No other setting ran with enough memory: your",
            "lint a.toml",
        ),
        (
            [("baseline", MINE), *confirmed(MINE, GOOD_TWIN)],
            "No other setting ran with enough memory: your",
            "lint a.toml",
        ),
        (
            [*MORE[:2], *confirmed(MINE, GOOD_TWIN)],
            "Your config is already the best among the 2 settings tried (of 16)",
            "lint a.toml",
        ),
        (
            [("baseline", ran(GIVEN, outcome="oom")), ("search", told(OTHER, 50))],
            "50 tokens/s; your config failed: out of memory",
            "--budget 2h  # goes on",
        ),
        (
            WHOLE[:3],
            "Inconclusive (no pair of runs): 100 -> 152 tokens/s",
            "--budget 2h  # goes on",
        ),
    ],
)
def test_headlines(tmp_path, pairs, headline, command):
    said = story(shown(tmp_path / ".fp8tune/s", pairs))
    assert said.headline.startswith(headline)
    assert command in said.commands[0]


BF16 = told(BEST_TWIN, 170, fp8=False)
UNSEEN = [(stage, r._replace(extra={})) for stage, r in [*SLOW, *MORE[1:2]]]
"""That did not come to its end."""
WON = [
    *(pair for pair in WHOLE if pair[1].knobs != BF16.knobs),
    *confirmed(told(BEST, 150), BF16, told(GIVEN, 100)),
]


@pytest.mark.parametrize(
    ("pairs", "sentence", "command"),
    [
        (
            [*SLOW, *MORE[1:2]],
            "Your config is already the best among the 2 settings tried (of 16): 80 ",
            "fp8tune search a.toml --budget 2h --allow precision",
        ),
        (
            UNSEEN,
            "Inconclusive: the other setting that ran is not surely faster: your ",
            "fp8tune search a.toml --budget 2h  # goes on from here",
        ),
        (
            WON,
            "Chosen: batch_size = 4.",
            "fp8tune search a.toml --budget 2h --allow precision",
        ),
    ],
)
def test_the_verdict_stands_where_fp8_does_not_pay(tmp_path, pairs, sentence, command):
    said = story(shown(tmp_path / ".fp8tune/s", pairs))
    assert said.headline.startswith("FP8 does not pay: -")
    assert said.sentences[0].startswith(sentence)
    assert said.commands[0] == command


def joules(point, speed, each):
    return told(point, speed, more={"tokens_per_joule": each})


SAVING = [
    ("baseline", joules(GIVEN, 100, 1.0)),
    ("bf16-baseline", joules(TWIN, 60, 0.8)),
    ("search", joules(BEST, 90, 1.3)),
    *confirmed(
        joules(BEST, 90, 1.3), joules(GIVEN, 100, 1.0), joules(BEST_TWIN, 70, 0.9)
    ),
]


def test_tokens_per_joule(tmp_path):
    """The aim is what the headline is of, and they are told whatever the aim."""
    found = shown(tmp_path / "a", SAVING, objective="tokens-per-joule")
    said = story(found)
    assert said.headline.startswith("More efficient: +30.0 % tokens per joule (")
    assert {row[5] for row in every_trial(found)} == {"0.8", "0.9", "1", "1.3"}
    gains = [line for line in said.sentences if line.startswith("FP8 vs bf16")]
    assert [line.partition(" (")[0] for line in gains] == [
        "FP8 vs bf16: +44.4 % tokens per joule",
        "FP8 vs bf16: +28.6 % tokens/s",
    ]
    assert any("1 tokens/J: -23.1 % (-24.0 to -22.1) b" in s for s in said.sentences)
    assert any(s.startswith("-10.0 % tokens/s (") for s in said.sentences)


def test_confirmed_by_the_aim(tmp_path):
    slow = [("search", joules(OTHER, 99, 0.5)), *SAVING]
    assert shown(tmp_path / "a", slow, objective="tokens-per-joule").ended


def test_the_command_that_goes_on_names_what_the_search_was_told(tmp_path):
    about = {"allow": ["warmup"], "objective": "tokens-per-joule"}
    made = plan(path="my run.toml", target=Target("h200", 16))
    told_case = case(saved(study(tmp_path / ".fp8tune/s", SAVING[:2], made, **about)))
    assert story(told_case).commands == (
        "fp8tune search 'my run.toml' --budget 2h --allow warmup --objective "
        "tokens-per-joule --world-size 16  # goes on from here",
    )


SHORT = told(GIVEN, 100, reserved_gib=139.0)
FLAKY = [("baseline", told(GIVEN, 100)), ("confirm", ran(GIVEN, outcome="oom"))]


@pytest.mark.parametrize(
    ("pairs", "about", "said"),
    [
        (WHOLE[:3], {}, "A larger --budget should settle it."),
        (
            [("baseline", SHORT), *WHOLE[1:]],
            {},
            "Your config leaves too little memory ",
        ),
        ([*FLAKY, *WHOLE[2:3]], {}, "Your config ran once and failed in another run: "),
        (
            WHOLE,
            {"ending": {"next_step": "", "settling_s": 0.0, "unchecked": "no time"}},
            "Stability not checked: no time.",
        ),
    ],
)
def test_what_the_terminal_warns_of_is_said_too(tmp_path, pairs, about, said):
    sentences = story(shown(tmp_path / ".fp8tune/s", pairs, **about)).sentences
    assert [line for line in sentences if line.startswith(said)]


def test_other_tokens_of_a_step_are_said(tmp_path):
    """Where no accumulation keeps them."""
    made = plan(CONFIG.replace("grad_accum_steps = 8", "grad_accum_steps = 1"))
    said = story(case(saved(study(tmp_path / ".fp8tune/s", WHOLE, made)))).sentences
    assert (
        "2 -> 4 sequences per rank and optimizer step: the learning rate and its "
        "schedule were not meant for that."
    ) in said


@pytest.mark.parametrize(
    ("pairs", "about", "warnings"),
    [
        (WHOLE, {}, []),
        (WHOLE, {"device": "cpu"}, ["A rehearsal on a CPU"]),
        (WHOLE, {"records": "ab12"}, ["A replay of recorded trials"]),
        (WHOLE[:3], {}, ["The search ended before its last comparisons."]),
        (WHOLE, {"output": None}, ["The search was cut off before it told its end. "]),
        (SLOWED, {}, ["The machine changed on the way: settings that were measured"]),
        (
            PARTED,
            {},
            ["Settings did not keep their speed: measured again, one ran at "],
        ),
        ([], {}, ["The search ended before its last comparisons."]),
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
    said = story(shown(tmp_path / ".fp8tune/s", pairs, **about)).warnings
    assert len(said) == len(warnings)
    assert all(a.startswith(b) for a, b in zip(said, warnings, strict=True))
