"""What a report says first: how the search went, and what must be known."""

import pytest

from fp8tune.job import Target
from fp8tune.search.report.data import case
from fp8tune.search.report.story import Story, story
from fp8tune.search.report.tables import every_trial
from fp8tune.search.saved import load_study
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
        "Faster: +50.0 % tokens/s over your config",
        (
            "batch_size = 4: 100 (99.1 to 101) -> 150 (149 to 151) tokens/s, +50.0 % "
            "(+48.1 to +51.9), by 2 pairs of runs.",
            "Peak memory 40.0 of 139.8 GiB allocated, 44.0 reserved.",
            "FP8 against bf16 (batch 4, AC full, compiled, bf16): +25.0 % (+23.4 to "
            "+26.6) tokens/s; bf16 does 120 (119 to 121) tokens/s.",
            "Runner-up: batch 2, AC none, compiled, FP8, 110 tokens/s: -27.6 % "
            "(-29.0 to -26.2) beside the chosen one, not measured again, by the trials "
            "before the confirmation.",
            "Stability was not checked: no run compares FP8's losses with bf16's.",
            "11 trials of 6 settings, 1 out of memory, 11 min. Intervals are 95 % and "
            "count the spread between fresh runs.",
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
        (SLOW, "bf16 is faster: FP8 does not pay here, it reaches 80.0 % (", "--allow"),
        (LEVEL, "FP8 does not pay here: as fast as bf16, -0.6 % (", "lint a.toml"),
        (VAGUE, "FP8 may not pay here: it reaches 98.0 % (", "lint a.toml"),
        (
            [("baseline", MINE), *confirmed(MINE, GOOD_TWIN)],
            "No other setting ran: your config stays",
            "lint a.toml",
        ),
        (
            [*MORE[:2], *confirmed(MINE, GOOD_TWIN)],
            "Your config is already the best among the 2 settings tried (of 16)",
            "lint a.toml",
        ),
        (
            [("baseline", ran(GIVEN, outcome="oom")), ("search", told(OTHER, 50))],
            "A setting that runs",
            "--budget 2h  # goes on",
        ),
        (
            WHOLE[:3],
            "Inconclusive: +52.0 % tokens/s, and not both were measured again",
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
    ("pairs", "sentences", "command"),
    [
        (
            [*SLOW, *MORE[1:2]],
            [
                "Your config is already the best among the 2 settings tried (of 16).",
                "Your config does 80 (",
            ],
            "fp8tune search a.toml --budget 2h --allow precision",
        ),
        (
            UNSEEN,
            [
                "Inconclusive: the other setting that ran is not surely faster, but "
                "not all were tried: your config stays.",
                "Your config does 80 (",
                "Give a larger --budget to learn more.",
            ],
            "fp8tune search a.toml --budget 2h  # goes on from here",
        ),
        (
            WON,
            [
                "Faster: +50.0 % tokens/s over your config.",
                "batch_size = 4: 100 (",
            ],
            "fp8tune search a.toml --budget 2h --allow precision",
        ),
    ],
)
def test_the_verdict_stands_where_fp8_does_not_pay(tmp_path, pairs, sentences, command):
    said = story(shown(tmp_path / ".fp8tune/s", pairs))
    assert said.headline.startswith("bf16 is faster: FP8 does not pay here, it ")
    assert all(map(str.startswith, said.sentences, sentences)), said.sentences
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
    assert said.headline == "More efficient: +30.0 % tokens/J over your config"
    assert said.sentences[0].startswith("batch_size = 4: 1 (0.991 to 1.01) -> 1.3 (")
    assert said.sentences[1].startswith("Beside that 100 (99.1 to 101) -> 90 (")
    assert {row[5] for row in every_trial(found)} == {"0.8", "0.9", "1", "1.3"}
    gains = [line for line in said.sentences if line.startswith("FP8 against bf16")]
    assert [line.partition("): ")[2].partition(" (")[0] for line in gains] == [
        "+44.4 %",
        "+28.6 %",
    ]
    assert [line.rpartition(" ")[2] for line in gains] == ["tokens/J.", "tokens/s."]
    assert any("1 tokens/J: -23.1 % (-24.0 to -22.1) b" in s for s in said.sentences)
    fast = story(shown(tmp_path / "b", SAVING))
    assert fast.sentences[0].startswith("Your config does 100 (99.1 to 101) tokens/s")
    assert fast.sentences[1].startswith("Beside that 1 (")


def test_confirmed_by_the_aim(tmp_path):
    slow = [("search", joules(OTHER, 99, 0.5)), *SAVING]
    assert shown(tmp_path / "a", slow, objective="tokens-per-joule").ended


def test_the_command_that_goes_on_names_what_the_search_was_told(tmp_path):
    about = {"allow": ["warmup"], "objective": "tokens-per-joule"}
    made = plan(path="my run.toml", target=Target("h200", 16))
    told_case = case(
        load_study(study(tmp_path / ".fp8tune/s", SAVING[:2], made, **about))
    )
    assert story(told_case).commands == (
        "fp8tune search 'my run.toml' --budget 2h --allow warmup --objective "
        "tokens-per-joule --world-size 16  # goes on from here",
    )


SHORT = told(GIVEN, 100, reserved_gib=139.0)
FLAKY = [("baseline", told(GIVEN, 100)), ("confirm", ran(GIVEN, outcome="oom"))]


@pytest.mark.parametrize(
    ("pairs", "about", "said"),
    [
        (WHOLE[:3], {}, "Not both measured again, so it may be luck: a larger "),
        (
            [("baseline", SHORT), *WHOLE[1:]],
            {},
            "Your config leaves too little memory ",
        ),
        ([*FLAKY, *WHOLE[2:3]], {}, "Your config ran once and failed in another run: "),
        (WHOLE, {"unchecked": "no time"}, "Stability not checked: no time."),
    ],
)
def test_what_the_terminal_warns_of_is_said_too(tmp_path, pairs, about, said):
    sentences = story(shown(tmp_path / ".fp8tune/s", pairs, **about)).sentences
    assert [line for line in sentences if line.startswith(said)]


def test_other_tokens_of_a_step_are_said(tmp_path):
    """Where no accumulation keeps them."""
    made = plan(CONFIG.replace("grad_accum_steps = 8", "grad_accum_steps = 1"))
    said = story(
        case(load_study(study(tmp_path / ".fp8tune/s", WHOLE, made)))
    ).sentences
    assert said[1] == (
        "2 -> 4 sequences per rank and optimizer step: the learning rate and its "
        "schedule were not meant for that."
    )


@pytest.mark.parametrize(
    ("pairs", "about", "warnings"),
    [
        (WHOLE, {}, []),
        (WHOLE, {"device": "cpu"}, ["A rehearsal on a CPU"]),
        (WHOLE, {"records": "ab12"}, ["A replay of recorded trials"]),
        (WHOLE[:3], {}, ["Not all is confirmed"]),
        (WHOLE, {"output": None}, ["The search was cut off before it told its end. "]),
        (SLOWED, {}, ["The machine changed on the way: settings that were measured"]),
        (
            PARTED,
            {},
            ["Settings did not keep their speed: measured again, one ran at "],
        ),
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
    said = story(shown(tmp_path / ".fp8tune/s", pairs, **about)).warnings
    assert len(said) == len(warnings)
    assert all(a.startswith(b) for a, b in zip(said, warnings, strict=True))


@pytest.mark.parametrize("output", [None, ""])
def test_a_larger_budget_is_advised_only_after_the_end(tmp_path, output):
    """While the search goes on, it may still tell."""
    said = story(shown(tmp_path / "s", UNSEEN, output=output))
    advised = "Give a larger --budget to learn more." in said.sentences
    assert advised == (output is not None)
