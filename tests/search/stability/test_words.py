"""What a search says of a comparison, in the terminal, in JSON and in the config."""

import json

import pytest

from fp8tune.search.comments import choices, summary
from fp8tune.search.outcome import Ending, decide, is_untied, with_config
from fp8tune.search.output import as_json, closing
from fp8tune.search.stability import words
from fp8tune.search.wording import UNTIED
from fp8tune.search.writeback import write_back
from tests.report.studies import CONFIG, WHOLE, plan
from tests.search.stability.runs import climbing, learned, seeds
from tests.search.tries import GIVEN, SPACE, TWIN, but, ran, trials

KEY = "scheduler.warmup_steps"


def study(*curves, before=WHOLE):
    return trials(*before, *(("stability", learned(run)) for run in curves))


def both(by=0.0, nan=False, **how):
    fp8 = [run._replace(nan=nan) for run in seeds("fp8", by, **how)]
    return [*seeds(**how), *fp8]


def compared(runs):
    points = {"fp8": GIVEN, "bf16": TWIN}
    return [("stability", learned(run, points[run.precision])) for run in runs]


def lines(made, of=None):
    """What the terminal says of an outcome."""
    of = of or plan()
    return list(closing(with_config(made, of, []), of, ""))


def found(*curves):
    return decide(SPACE, GIVEN, study(*curves), 60.0)


INSIDE = found(*both(), *both(warmup=4, count=2), *both(0.5, warmup=2, count=2))
FREE = found(*both(free=True), *both(warmup=4, count=2, free=True))
OUTSIDE = found(*both(0.5), *both(0.5, warmup=16, count=2))
FEW = found(*both(count=2))
LOST = found(*both(nan=True), *both(warmup=16))
HARSHER = found(*both(given=2000))
OWN = {"warmup": 2000, "given": 2000}
DOUBT = found(*both(nan=True, given=2000))
BEGUN = found(*both(nan=True, given=2000), *both(**OWN))
AT_ONCE = found(*both(nan=True, given=2000), *both(nan=True, **OWN))


@pytest.mark.parametrize(
    ("made", "start"),
    [
        (INSIDE, "FP8 stays inside the spread of bf16 seeds: loss "),
        (OUTSIDE, "FP8 is outside the spread of bf16 seeds: loss +49."),
        (FEW, "inconclusive: only 2 of 3 seeds were run: loss "),
    ],
)
def test_the_verdict_and_its_evidence(made, start):
    said = words.verdict(made.learns)
    assert said.startswith(start)
    assert "no gradient spike (32 steps, warmup 8, " in said


def test_a_rejected_setting_is_said_with_what_to_type():
    said = lines(LOST)
    assert "no setting is proposed: FP8 diverges where bf16 does not" in said
    assert (
        "rejected: batch_size = 4: FP8 diverged in 3 of 3 seeds, bf16 in 0 "
        "(32 steps, warmup 8)" in said
    )
    proposed = f"{KEY} = 16 proposed, not written (16 inside)"
    assert f"warmup: {proposed}; --allow warmup writes it" in said
    assert "no FP8 setting is proposed; --allow precision lets bf16 be chosen" in said


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (INSIDE, f"{KEY} = 4 proposed, not written (2 outside, 4 inside); "),
        (FREE, f"{KEY} = 4 proposed and written (4 inside)"),
        (OUTSIDE, "none that was tried stays inside the spread (16 outside)"),
        (
            found(*both(), *both(0.5, warmup=4, count=2)),
            "8 steps, the config's, stays: no shorter was seen to stay inside "
            "(4 outside)",
        ),
    ],
)
def test_the_warmup(made, said):
    (line,) = words.warmup(made.learns, KEY)
    assert line.startswith(f"warmup: {said}")


def test_a_warmup_beside_which_none_was_tried_is_not_the_shortest():
    (line,) = words.warmup(found(*both()).learns, KEY)
    assert line == "warmup: 8 steps, the config's, stays: no shorter was tried"
    assert not list(words.warmup(found(*both(warmup=0, given=0)).learns, KEY))


@pytest.mark.parametrize(
    ("seeds", "said"), [(4, "4 of at most 6 seeds do not tell"), (6, "6 seeds do not")]
)
def test_why_seeds_do_not_tell(seeds, said):
    tested = INSIDE.learns.tested._replace(verdict="inconclusive", seeds=seeds)
    inconclusive = INSIDE.learns._replace(tested=tested)
    assert words.verdict(inconclusive).startswith(f"inconclusive: {said}")


def test_nothing_is_said_of_warmups_that_were_not_compared():
    assert list(words.warmup(FEW.learns, KEY)) == []
    said = list(words.warmup(HARSHER.learns, KEY))
    assert said == ["warmup: runs of 32 steps tell nothing of 2000"]


def test_a_warmup_that_a_run_cannot_hold():
    said = words.verdict(HARSHER.learns)
    assert "warmup 8 (a run holds no more; the config's is 2000)" in said


def test_what_such_a_run_cannot_show_is_always_said():
    for made in (INSIDE, OUTSIDE, FEW, HARSHER):
        last = list(words.sentences(made.learns, KEY))[-1]
        assert last == f"{words.LIMITS}; each run saw 32.8K tokens"


def test_text_that_was_made_up_is_said():
    runs = (but(learned(run), synthetic_data=True) for run in both())
    tried = trials(*WHOLE, *(("stability", record) for record in runs))
    last = list(words.sentences(decide(SPACE, GIVEN, tried, 60.0).learns, KEY))[-1]
    assert last.endswith("; each run saw 32.8K tokens of made-up text")


def lost(fp8, bf16, **how):
    """Runs of which the first diverge, so many in FP8 and bf16; a lone FP8 climbs."""

    def wrong(run):
        return climbing(run) if (fp8, bf16) == (1, 0) else run._replace(nan=True)

    return [
        wrong(run) if n < count else run
        for precision, count in (("fp8", fp8), ("bf16", bf16))
        for n, run in enumerate(seeds(precision, **how))
    ]


@pytest.mark.parametrize(
    ("fp8", "bf16", "why"),
    [
        (3, 3, "the learning rate may be too high for both"),
        (2, 1, "the learning rate may be too high for both"),
        (1, 0, "1 run may be chance"),
        (0, 1, "nothing against FP8, the learning rate may be too high for bf16"),
        (0, 3, "nothing against FP8, the learning rate may be too high for bf16"),
    ],
)
def test_divergence_that_tells_nothing_says_no_more_than_was_seen(fp8, bf16, why):
    assert words.verdict(found(*lost(fp8, bf16)).learns) == (
        f"inconclusive: FP8 diverged in {fp8} of 3 seeds, bf16 in {bf16} "
        f"(32 steps, warmup 8): {why}"
    )


SAID = (
    "FP8 may diverge: with a warmup of 8 steps it did in 3 of 3 seeds, bf16 in 0; "
    "yours, 2000, is longer than a trial holds: before a long run train past step 2000 "
    "in FP8 and in bf16, and compare the losses"
)
CUT = "(32 steps, warmup 8 (a run holds no more; the config's is 2000))"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (DOUBT, "the config's own first steps were not run"),
        (
            BEGUN,
            "in the config's first 32 steps FP8 stays inside the spread of bf16 seeds: "
            f"{words.evidence(BEGUN.learns.start)} (3 seeds)",
        ),
        (
            found(*both(nan=True, given=2000), *lost(1, 0, **OWN)),
            "in the config's first 32 steps in 1 of 3 seeds, bf16 in 0",
        ),
    ],
)
def test_divergence_under_a_harsher_warmup_alone_is_a_doubt_said_first(made, said):
    assert words.verdict(made.learns) == (
        f"inconclusive: FP8 diverged in 3 of 3 seeds, bf16 in 0 {CUT}; {said}"
    )
    first, second, *_ = lines(made)
    assert first == SAID
    assert second.startswith("inconclusive (")
    assert "FP8 may diverge: " in written(made)
    assert as_json(made, plan(), "", "s")["verdict"] == "inconclusive"


def test_divergence_in_the_config_s_own_first_steps_rejects():
    said = lines(AT_ONCE)
    assert said[0] == "no setting is proposed: FP8 diverges where bf16 does not"
    assert (
        "rejected: batch_size = 4: FP8 diverged in 3 of 3 seeds, bf16 in 0 "
        "(the config's first 32 steps, warmup 2000)" in said
    )
    assert not any(line.startswith("warmup") for line in said)
    told = as_json(AT_ONCE, plan(), "", "s")["stability"]
    assert (told["verdict"], told["first_steps"]["warmup_steps"]) == ("diverged", 2000)


@pytest.mark.parametrize("made", [INSIDE, OUTSIDE, FEW, HARSHER, AT_ONCE])
def test_no_doubt_is_said_of_what_is_known_or_did_not_diverge(made):
    assert words.doubt(made.learns) == ""


def test_json_has_it_as_a_field_of_its_own():
    told = as_json(INSIDE, plan(), "", "s")["stability"]
    assert json.loads(json.dumps(told)) == told
    assert told["verdict"] == "inside"
    assert (told["warmup_steps"], told["config_warmup_steps"]) == (8, 8)
    assert (told["proposed_warmup_steps"], told["seeds"]) == (4, 3)
    assert [other["verdict"] for other in told["other_warmups"]] == [
        "outside",
        "inside",
    ]
    rejected = as_json(LOST, plan(), "", "s")["stability"]
    assert rejected["verdict"] == "diverged"
    assert rejected["diverged"] == {"fp8": 3, "bf16": 0}


TIED = plan(f"{CONFIG}[model]\ntie_embeddings = true\n")
PLAIN = decide(SPACE, GIVEN, trials(*WHOLE), 60.0)


@pytest.mark.parametrize(
    ("made", "of", "is_said"),
    [
        (INSIDE, TIED, True),
        (LOST, TIED, True),
        (INSIDE, plan(), False),
        (PLAIN, TIED, False),
    ],
)
def test_losses_of_two_models_are_said_to_be_such(made, of, is_said):
    assert (UNTIED in lines(made, of)) is is_said
    assert is_untied(made, of) is is_said


def test_config_and_json_say_that_losses_are_of_two_models():
    said = (
        "# fp8tune search: stability (FP8 unties the embeddings: two models): FP8 stays"
    )
    assert said in written(INSIDE, TIED)
    told = as_json(INSIDE, TIED, "", "s")["stability"]
    assert told["limits"] == f"{words.LIMITS}; {UNTIED}"
    assert as_json(INSIDE, plan(), "", "s")["stability"]["limits"] == words.LIMITS


def test_json_says_why_there_is_none():
    assert as_json(PLAIN, plan(), "", "s")["stability"] is None
    without = PLAIN._replace(ending=Ending(unchecked="no time"))
    told = as_json(without, plan(), "", "s")["stability"]
    assert told == {"verdict": None, "why": "no time"}
    assert "stability not checked: no time" in (lines(without))


def written(made, given=None):
    given = given or plan()
    made = with_config(made, given, [])
    block = summary(given, made, "study-1")
    return write_back(given.config.data, choices(given, made), block).decode()


def test_the_config_says_it_in_a_line():
    text = written(INSIDE).replace("\n# fp8tune search:", "")
    assert "stability: FP8 stays inside the spread of bf16 seeds: loss " in text
    assert "warmup_steps" not in text


def test_the_warmup_is_written_where_that_was_asked_for():
    text = written(FREE)
    assert "warmup_steps = 4\n" in text
    assert "# fp8tune search: 8 -> 4: the shortest tried in which FP8" in text


def test_the_warmup_alone_may_change():
    same = [("baseline", ran(GIVEN, 150)), ("bf16-baseline", ran(TWIN, 120))]
    same += [("confirm", ran(GIVEN, 150))] * 2
    runs = [*both(free=True), *both(warmup=4, count=2, free=True)]
    made = decide(SPACE, GIVEN, trials(*same, *compared(runs)), 60.0)
    assert made.chosen == GIVEN
    (choice,) = choices(plan(), made)
    assert (choice.key, choice.value) == (KEY, 4)


def test_a_given_setting_that_stays_is_said_to_be_doubtful_first():
    same = [("baseline", ran(GIVEN, 150)), ("bf16-baseline", ran(TWIN, 120))]
    same += [("confirm", ran(point, 150)) for point in (GIVEN, TWIN) * 2]
    runs = compared(both(nan=True, given=2000))
    made = decide(SPACE, GIVEN, trials(*same, *runs), 60.0)
    assert (made.chosen, lines(made)[0]) == (GIVEN, SAID)
