"""Settings that fail, or leave too little memory: they are not chosen."""

import pytest

from fp8tune.search.answer import answer, ranked
from tests.search.tries import BEST, GIVEN, OTHER, SPACE, TWIN, confirmed, ran, trials


@pytest.mark.parametrize("outcome", ["oom", "nan", "user", "compile"])
def test_what_once_failed_for_good_is_not_chosen(outcome):
    mixed = trials(
        ("search", ran(BEST, 200)),
        ("confirm", ran(BEST, outcome=outcome)),
        ("given", ran(GIVEN)),
    )
    assert ranked(SPACE, GIVEN, mixed) == [GIVEN]
    nothing = [*mixed, *trials(("confirm", ran(GIVEN, outcome=outcome)))]
    found = answer(SPACE, GIVEN, nothing, 1.0)
    assert (found.chosen, found.verdict) == (None, "unsure")
    assert found.broken == {BEST: outcome, GIVEN: outcome}
    passing = trials(("search", ran(BEST, 200)), ("confirm", ran(BEST, outcome="hang")))
    assert ranked(SPACE, GIVEN, passing) == [BEST]


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
        ("given", ran(GIVEN)),
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
    pairs = ("given", ran(GIVEN)), ("search", ran(BEST, 200, **fields))
    found = answer(SPACE, GIVEN, trials(*pairs), 1.0)
    assert (found.chosen, found.unfit) == (BEST, {})


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], (GIVEN, "unsure")),
        ([("search", ran(OTHER, 90))], (OTHER, "slower")),
        ([("search", ran(OTHER, 120))], (OTHER, "faster")),
        ([("search", ran(OTHER, 90, **RETRIED))], (GIVEN, "unsure")),
    ],
)
def test_a_given_setting_with_too_little_memory_left_gives_way(others, expected):
    found = answer(SPACE, GIVEN, trials(("given", ran(GIVEN, **FULL)), *others), 1.0)
    assert (found.chosen, found.verdict) == expected
    assert GIVEN in found.unfit


def test_bf16_that_lacks_memory_is_no_reference():
    best = SPACE.twin(BEST)
    found = answer(
        SPACE,
        GIVEN,
        trials(
            ("given", ran(GIVEN, more={"alloc_retries": 3})),
            ("twin", ran(TWIN, 120, more={"alloc_retries": 3})),
            ("confirm", ran(BEST, 110)),
            ("confirm", ran(best, 88)),
        ),
        9.0,
    )
    assert (found.chosen, found.twin.value, found.fp8_gain) == (BEST, 88, 1.25)
