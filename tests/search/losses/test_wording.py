"""What a search says of a comparison, in the terminal, in JSON and in the config."""

import json

import pytest

from fp8tune.search.answer.answer import Ending, is_untied
from fp8tune.search.answer.decide import decide, with_config
from fp8tune.search.answer.stored import as_json
from fp8tune.search.answer.wording import UNTIED, closing
from fp8tune.search.losses import findings
from fp8tune.search.losses.compare import LossVerdict
from fp8tune.search.write.comments import choices, summary
from fp8tune.search.write.writeback import write_back
from tests.each import each
from tests.report.studies import CONFIG, WHOLE, plan
from tests.search.losses.runs import climbing, learned, seeds
from tests.search.tries import (
    BEST,
    BF16,
    GIVEN,
    but,
    history,
    history_of,
    ran,
    trials,
)


def study(*curves, before=WHOLE):
    return trials(*before, *(("stability", learned(run)) for run in curves))


def both(by=0.0, nan=False, **how):
    fp8 = [run._replace(nan=nan) for run in seeds("fp8", by, **how)]
    return [*seeds(**how), *fp8]


def compared(runs):
    points = {"fp8": GIVEN, "bf16": BF16}
    return [("stability", learned(run, points[run.precision])) for run in runs]


def lines(made, of=None):
    """What the terminal says of an outcome."""
    of = of or plan()
    return list(closing(with_config(made, of, []), of, ""))


def stability(made, of=None):
    """What the JSON says of the comparison."""
    return as_json(made, of or plan(), "", "s")["stability"]


def found(*curves):
    return decide(history_of(study(*curves)), 60.0)


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


def test_a_rejected_setting_is_said_with_what_to_type():
    said = lines(LOST)
    assert "no setting is proposed: FP8 diverges where bf16 does not" in said
    assert (
        "rejected: batch_size = 4: FP8 diverged in 3 of 3 seeds, bf16 in 0 "
        "(32 steps, warmup 8)" in said
    )
    proposed = "16 steps proposed, not written (tried: 16 steps inside the spread)"
    assert f"warmup: {proposed}; --allow warmup writes it" in said
    assert "no FP8 setting is proposed; --allow precision lets bf16 be chosen" in said


def test_synthetic_data_is_named():
    runs = (but(learned(run), synthetic_data=True) for run in both())
    tried = trials(*WHOLE, *(("stability", record) for record in runs))
    last = list(findings.lines(decide(history_of(tried), 60.0).learns))[-1]
    assert last.endswith("; each run saw 32.8K tokens of synthetic data")


def lost(fp8, bf16, **how):
    """Runs of which the first diverge, so many in FP8 and bf16; a lone FP8 climbs."""

    def wrong(run):
        return climbing(run) if (fp8, bf16) == (1, 0) else run._replace(nan=True)

    return [
        wrong(run) if n < count else run
        for precision, count in (("fp8", fp8), ("bf16", bf16))
        for n, run in enumerate(seeds(precision, **how))
    ]


GAP = "loss -0.04 % (-0.10 to +0.03), bf16 seeds differ by 0.19 %, no gradient spike"
STAYS = f"FP8 stays inside the spread of bf16 seeds: {GAP}, 3 seeds"
ALL = "FP8 diverged in 3 of 3 seeds, bf16 in 0"
CUT = "(32 steps, warmup 8 of the config's 2000)"
PUBLISHED = "published FP8 runs warm up over 200 to 2000 steps"
TO_ALLOW = "--allow warmup writes it"
WARNING = (
    "FP8 may diverge: it did in 3 of 3 seeds, bf16 in 0, with a warmup of 8 steps "
    "(runs are too short for your 2000); before a long run train past step 2000 in FP8 "
    "and in bf16, and compare the losses"
)
SEVERAL = INSIDE.learns.tested._replace(verdict=LossVerdict.INCONCLUSIVE, seeds=4)
LINES = {
    "inside": (
        INSIDE.learns,
        f"{STAYS} (32 steps, warmup 8)",
        f"4 steps proposed, not written (tried: 2 steps outside the "
        f"spread, 4 steps inside the spread); {TO_ALLOW}; "
        f"{PUBLISHED}",
    ),
    "the warmup may change": (
        FREE.learns,
        f"{STAYS} (32 steps, warmup 8)",
        f"4 steps proposed and written (tried: 4 steps inside the spread); {PUBLISHED}",
    ),
    "no other warmup": (
        found(*both()).learns,
        f"{STAYS} (32 steps, warmup 8)",
        "8 steps, as in your config: no shorter one was tried",
    ),
    "no warmup": (
        found(*both(warmup=0, given=0)).learns,
        f"{STAYS} (32 steps, warmup 0)",
    ),
    "no shorter warmup": (
        found(*both(), *both(0.5, warmup=4, count=2)).learns,
        f"{STAYS} (32 steps, warmup 8)",
        "8 steps, as in your config: no shorter one stayed inside the spread "
        "(4 steps outside the spread)",
    ),
    "a longer warmup than a run": (
        HARSHER.learns,
        f"{STAYS} {CUT}",
        "runs of 32 steps are too short to test 2000",
    ),
    "outside": (
        OUTSIDE.learns,
        "FP8 is outside the spread of bf16 seeds: loss +49.95 % (+49.89 to +50.02), "
        "bf16 seeds differ by 0.19 %, no gradient spike, 3 seeds (32 steps, warmup 8)",
        "none tried stays inside the spread (16 steps outside the spread)",
    ),
    "few seeds": (
        FEW.learns,
        "inconclusive: only 2 of 3 seeds were run: loss -0.05 % (-0.08 to -0.03), "
        "no gradient spike, 2 seeds (32 steps, warmup 8)",
    ),
    "more seeds": (
        INSIDE.learns._replace(tested=SEVERAL),
        "inconclusive: 4 of at most 6 seeds are too few to tell: "
        f"{GAP}, 4 seeds (32 steps, warmup 8)",
    ),
    "all seeds": (
        INSIDE.learns._replace(tested=SEVERAL._replace(seeds=6)),
        f"inconclusive: 6 seeds are too few to tell: {GAP}, 6 seeds "
        "(32 steps, warmup 8)",
    ),
    "inside or not": (
        INSIDE.learns._replace(
            tested=INSIDE.learns.tested._replace(spread=0.0002), others=()
        ),
        "FP8 stays inside the spread of bf16 seeds, as far as 3 seeds can show: loss "
        "-0.04 % (-0.10 to +0.03), bf16 seeds differ by 0.02 %, no gradient spike, "
        "3 seeds (32 steps, warmup 8)",
        f"4 steps proposed, not written; {TO_ALLOW}; {PUBLISHED}",
    ),
    "diverged": (
        LOST.rejected[BEST],
        f"{ALL} (32 steps, warmup 8)",
        f"16 steps proposed, not written (tried: 16 steps inside the spread); "
        f"{TO_ALLOW}",
    ),
    "diverged in the first steps": (
        AT_ONCE.rejected[BEST],
        f"{ALL} (the config's first 32 steps, warmup 2000)",
    ),
    "diverged under a shorter warmup": (
        DOUBT.learns,
        f"inconclusive: {ALL} {CUT}; the config's own first steps were not run",
    ),
    "but not in the first steps": (
        BEGUN.learns,
        f"inconclusive: {ALL} {CUT}; in the config's first 32 steps {STAYS}",
    ),
    "perhaps in the first steps": (
        found(*both(nan=True, given=2000), *lost(1, 0, **OWN)).learns,
        f"inconclusive: {ALL} {CUT}; in the config's first 32 steps "
        "FP8 diverged in 1 of 3 seeds, bf16 in 0",
    ),
} | {
    f"diverged: {fp8}, {bf16}": (
        found(*lost(fp8, bf16)).learns,
        f"inconclusive: FP8 diverged in {fp8} of 3 seeds, bf16 in {bf16} "
        f"(32 steps, warmup 8); {why}",
    )
    for fp8, bf16, why in (
        (3, 3, "the learning rate may be too high for both"),
        (2, 1, "the learning rate may be too high for both"),
        (1, 0, "1 run may be chance"),
        (0, 1, "the learning rate may be too high for bf16: no evidence about FP8"),
    )
}


@each("case", LINES)
def test_the_lines_at_the_end_of_a_search(case):
    result, verdict, *warmups = LINES[case]
    limits = f"{findings.LIMITS}; each run saw 32.8K tokens"
    assert list(findings.lines(result)) == [
        f"stability: {verdict}",
        *(f"warmup: {line}" for line in warmups),
        limits,
    ]


@each("made", [DOUBT, BEGUN])
def test_divergence_under_a_shorter_warmup_alone_is_a_warning_on_top(made):
    first, second, *_ = lines(made)
    assert first == WARNING
    assert second.startswith("inconclusive (")
    assert "FP8 may diverge: " in written(made)
    assert as_json(made, plan(), "", "s")["verdict"] == "inconclusive"


def test_one_diverged_run_is_a_warning():
    assert findings.warning(found(*lost(1, 0)).learns) == (
        "FP8 may diverge: it did in 1 of 3 seeds, bf16 in 0, which may be chance; "
        "before a long run train with other seeds in FP8 and in bf16, and compare the "
        "losses"
    )


@pytest.mark.parametrize("made", [INSIDE, OUTSIDE, FEW, HARSHER, AT_ONCE])
def test_no_doubt_is_said_of_what_is_known_or_did_not_diverge(made):
    assert findings.warning(made.learns) == ""


def test_json_has_it_as_a_field_of_its_own():
    told = stability(INSIDE)
    assert json.loads(json.dumps(told)) == told
    assert told["verdict"] == "inside"
    assert (told["warmup_steps"], told["config_warmup_steps"]) == (8, 8)
    assert (told["proposed_warmup_steps"], told["seeds"]) == (4, 3)
    assert [other["verdict"] for other in told["other_warmups"]] == [
        "outside",
        "inside",
    ]
    rejected = stability(LOST)
    assert rejected["verdict"] == "diverged"
    assert rejected["diverged"] == {"fp8": 3, "bf16": 0}


TIED = plan(f"{CONFIG}[model]\ntie_embeddings = true\n")
PLAIN = decide(history(*WHOLE), 60.0)


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
    told = stability(INSIDE, TIED)
    assert told["limits"] == f"{findings.LIMITS}; {UNTIED}"
    assert stability(INSIDE)["limits"] == findings.LIMITS


def test_json_says_why_there_is_none():
    assert stability(PLAIN) is None
    without = PLAIN._replace(ending=Ending(unchecked="no time"))
    told = stability(without)
    assert told == {"verdict": None, "why": "no time"}
    assert "stability not checked: no time" in (lines(without))


def written(made, given=None):
    given = given or plan()
    made = with_config(made, given, [])
    block = summary(given, made, "study 1", ())
    return write_back(given.config.data, choices(given, made), block).decode()


def test_the_warmup_alone_may_change():
    same = [("baseline", ran(GIVEN, 150)), ("bf16-baseline", ran(BF16, 120))]
    same += [("confirm", ran(GIVEN, 150))] * 2
    runs = [*both(free=True), *both(warmup=4, count=2, free=True)]
    made = decide(history(*same, *compared(runs)), 60.0)
    assert made.chosen == GIVEN
    (choice,) = choices(plan(), made)
    assert (choice.key, choice.value) == ("scheduler.warmup_steps", 4)


def test_a_given_setting_that_stays_is_said_to_be_doubtful_first():
    same = [("baseline", ran(GIVEN, 150)), ("bf16-baseline", ran(BF16, 120))]
    same += [("confirm", ran(point, 150)) for point in (GIVEN, BF16) * 2]
    runs = compared(both(nan=True, given=2000))
    made = decide(history(*same, *runs), 60.0)
    assert (made.chosen, lines(made)[0]) == (GIVEN, WARNING)
