"""Settings that fail, or leave too little memory: they are not chosen."""

import pytest

from fp8tune.job import Target
from fp8tune.search.answer import answer, ranked
from fp8tune.search.caveats import caveats
from fp8tune.search.closing import closing
from fp8tune.search.output import as_json
from fp8tune.search.plan import Plan, read_config
from fp8tune.search.reasons import choices, summary
from tests.search.tries import (
    BEST,
    CONFIG,
    GIVEN,
    OTHER,
    SPACE,
    TWIN,
    confirmed,
    ran,
    trials,
)


@pytest.mark.parametrize("outcome", ["oom", "nan", "user", "compile"])
def test_what_once_failed_for_good_is_not_chosen(outcome):
    mixed = trials(
        ("search", ran(BEST, 200)),
        ("confirm", ran(BEST, outcome=outcome)),
        ("baseline", ran(GIVEN)),
    )
    assert ranked(SPACE, GIVEN, mixed) == [GIVEN]
    nothing = [*mixed, *trials(("confirm", ran(GIVEN, outcome=outcome)))]
    found = answer(SPACE, GIVEN, nothing, 1.0)
    assert (found.chosen, found.verdict) == (None, "inconclusive")
    assert found.broken == {BEST: outcome, GIVEN: outcome}
    passing = trials(("search", ran(BEST, 200)), ("confirm", ran(BEST, outcome="hang")))
    assert ranked(SPACE, GIVEN, passing) == [BEST]


@pytest.mark.parametrize(
    ("outcome", "how", "more"),
    [
        ("oom", "out of memory", []),
        (
            "nan",
            "lost its loss (NaN)",
            ["the config's loss ended in NaN, and this setting learns alike: watch it"],
        ),
    ],
)
def test_how_the_config_failed_is_said_wherever_another_is_chosen(outcome, how, more):
    plan = Plan(read_config("a.toml", CONFIG.encode(), Target()), SPACE, GIVEN)
    tried = trials(
        ("baseline", ran(GIVEN, outcome=outcome)), ("search", ran(BEST, 120))
    )
    found = answer(SPACE, GIVEN, tried, 1.0)
    assert (found.chosen, found.given_outcome) == (BEST, outcome)
    first, second, third, *_ = closing(found, plan, "")
    assert first.startswith("best: batch_size = 4, 120 tokens/s")
    assert second == f"your config failed ({how}): no gain can be told"
    assert third == "not all settings were tried: give a larger --budget to learn more"
    assert list(caveats(found, plan))[:1] == more
    (batch, *_) = choices(plan, found)
    assert batch.reason == f"2 -> 4: the baseline failed: {how}"
    assert summary(plan, found, "s")[0] == f"120 tokens/s; the baseline failed: {how}"
    assert as_json(found, SPACE, "", "s")["baseline_outcome"] == outcome
    ran_once = [*tried, *trials(("baseline", ran(GIVEN)))]
    assert answer(SPACE, GIVEN, ran_once, 1.0).given_outcome == ""


FULL = {"reserved_gib": 130.0, "more": {"capacity_gib": 139.8}}


RETRIED = {"more": {"alloc_retries": 2}}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (FULL, "93.0 % of the GPU's memory reserved, over 92 %"),
        (RETRIED, "2 allocator retries"),
        ({"more": {"alloc_retries": 1}}, "1 allocator retry"),
    ],
)
def test_a_setting_with_too_little_memory_left_is_not_chosen(fields, why):
    tried = trials(
        ("baseline", ran(GIVEN)),
        ("search", ran(BEST, 200, **fields)),
        *confirmed(ran(OTHER, 120), ran(GIVEN)),
    )
    found = answer(SPACE, GIVEN, tried, 1.0)
    assert (found.chosen, found.verdict) == (OTHER, "faster")
    assert found.unfit == {BEST: why}
    assert BEST not in ranked(SPACE, GIVEN, tried)


@pytest.mark.parametrize(
    "fields",
    [
        {"reserved_gib": 128.0, "more": {"capacity_gib": 139.8}},
        {"reserved_gib": 130.0},
        {"reserved_gib": 130.0, "more": {"capacity_gib": "139.8"}},
        {"more": {"alloc_retries": 0}},
    ],
)
def test_enough_memory_or_nothing_known_of_it(fields):
    pairs = ("baseline", ran(GIVEN)), ("search", ran(BEST, 200, **fields))
    found = answer(SPACE, GIVEN, trials(*pairs), 1.0)
    assert (found.chosen, found.unfit) == (BEST, {})


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], (GIVEN, "inconclusive")),
        ([("search", ran(OTHER, 90))], (OTHER, "slower")),
        ([("search", ran(OTHER, 120))], (OTHER, "faster")),
        ([("search", ran(OTHER, 90, **RETRIED))], (GIVEN, "inconclusive")),
    ],
)
def test_a_given_setting_with_too_little_memory_left_gives_way(others, expected):
    found = answer(SPACE, GIVEN, trials(("baseline", ran(GIVEN, **FULL)), *others), 1.0)
    assert (found.chosen, found.verdict) == expected
    assert GIVEN in found.unfit


def test_bf16_that_lacks_memory_is_no_reference():
    best = SPACE.twin(BEST)
    found = answer(
        SPACE,
        GIVEN,
        trials(
            ("baseline", ran(GIVEN, more={"alloc_retries": 3})),
            ("bf16-baseline", ran(TWIN, 120, more={"alloc_retries": 3})),
            ("confirm", ran(BEST, 110)),
            ("confirm", ran(best, 88)),
        ),
        9.0,
    )
    assert (found.chosen, found.twin.value, found.fp8_gain) == (BEST, 88, 1.25)


@pytest.mark.parametrize(
    ("allocator", "said"),
    [
        ("PYTORCH_ALLOC_CONF=a:1", ["measured with PYTORCH_ALLOC_CONF=a:1: set it"]),
        ("default", []),
        (7, []),
    ],
)
def test_what_the_allocator_was_told_is_said(allocator, said):
    plan = Plan(read_config("a.toml", CONFIG.encode(), Target()), SPACE, GIVEN)
    more = {"versions": {"allocator": allocator}}
    tried = trials(("baseline", ran(GIVEN)), ("search", ran(BEST, 120, more=more)))
    lines = closing(answer(SPACE, GIVEN, tried, 1.0), plan, "")
    told = [line for line in lines if line.startswith("measured with")]
    assert told == [f"{line} for the run too" for line in said]
