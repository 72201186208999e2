"""Settings that fail, or leave too little memory: they are not chosen."""

import pytest

from fp8tune.job import Target
from fp8tune.search.answer.choice import choose
from fp8tune.search.answer.decide import decide, with_config
from fp8tune.search.answer.stored import next_commands
from fp8tune.search.answer.wording import message
from fp8tune.search.history import History
from fp8tune.search.plan import Plan, config_to_search
from fp8tune.trials.space import Space
from fp8tune.trials.trial import Trial
from tests.search.tries import (
    BEST,
    BF16,
    CONFIG,
    GIVEN,
    KNOBS,
    OTHER,
    SPACE,
    confirmed,
    history,
    history_of,
    ran,
    trials,
)


def decided(*pairs):
    """The answer to trials of a stage and a record."""
    return decide(history(*pairs), 1.0)


@pytest.mark.parametrize("outcome", ["oom", "nan", "user", "compile"])
def test_what_once_failed_for_good_is_not_chosen(outcome):
    mixed = trials(
        ("search", ran(BEST, 200)),
        ("confirm", ran(BEST, outcome=outcome)),
        ("baseline", ran(GIVEN)),
    )
    assert history_of(mixed).ranked == [GIVEN]
    nothing = [*mixed, *trials(("confirm", ran(GIVEN, outcome=outcome)))]
    found = decide(history_of(nothing), 1.0)
    assert (found.chosen, found.verdict) == (None, "inconclusive")
    assert found.broken == {BEST: outcome, GIVEN: outcome}
    later = [("confirm", ran(p)) for p in (BEST, GIVEN)]
    gone = history(*later, ("confirm", ran(GIVEN, outcome=outcome)))
    assert gone.ranked == [BEST]
    passing = trials(("search", ran(BEST, 200)), ("confirm", ran(BEST, outcome="hang")))
    assert history_of(passing).ranked == [BEST]


PLAN = Plan(config_to_search("a.toml", CONFIG.encode(), Target()), SPACE, GIVEN)


def whole(known):
    """The outcome of these trials, with its findings by code."""
    found = with_config(decide(history_of(known), 1.0), PLAN, known)
    return found, {finding.code: dict(finding.facts) for finding in found.findings}


def test_a_config_that_loses_its_loss_is_told_what_to_look_at():
    """Not where only other settings do."""
    config = CONFIG.replace("[train]", "[optimizer]\nlr = 1.0\n[train]")
    plan = PLAN._replace(config=config_to_search("a.toml", config.encode(), Target()))
    tried = trials(*[("search", ran(p, outcome="nan")) for p in (GIVEN, BEST)])
    found = with_config(decide(history_of(tried), 1.0), plan, tried)
    said = [message(each) for each in found.findings]
    assert (
        "your config loses its loss before anything is changed: look at its learning "
        "rate and warmup first (lr = 1.0, warmup_steps = 2000), then run the same "
        "command"
    ) in said
    assert next_commands(plan, {}, found, "") == ["fp8tune explain nan-loss"]
    _, findings = whole(trials(("search", ran(BEST, outcome="nan"))))
    assert "config-loses-its-loss" not in findings


@pytest.mark.parametrize("outcome", ["oom", "nan", "hang"])
def test_nothing_is_faster_than_a_baseline_that_never_ran(outcome):
    """How it failed is said first; what runs is chosen and written all the same."""
    tried = trials(
        ("baseline", ran(GIVEN, outcome=outcome)), ("search", ran(BEST, 120))
    )
    found, findings = whole(tried)
    assert (found.chosen, found.verdict) == (BEST, "inconclusive")
    assert next(iter(findings)) == "baseline-failed"
    assert findings["baseline-failed"]["outcome"] == outcome
    assert ("may-end-in-nan" in findings) == (outcome == "nan")
    ran_once = [*tried, *trials(("baseline", ran(GIVEN)))]
    assert decide(history_of(ran_once), 1.0).baseline_outcome == ""


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
        *confirmed(*[ran(OTHER, 120), ran(GIVEN)] * 2),
    )
    found = decide(history_of(tried), 1.0)
    assert (found.chosen, found.verdict) == (OTHER, "faster")
    assert found.memory_shortage == {BEST: why}
    assert BEST not in history_of(tried).ranked


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
    found = decided(*pairs)
    assert (found.chosen, found.memory_shortage) == (BEST, {})


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], (GIVEN, "inconclusive")),
        ([("search", ran(OTHER, 90))], (OTHER, "inconclusive")),
        (
            confirmed(*[ran(OTHER, 90), ran(GIVEN, **FULL)] * 2),
            (OTHER, "slower"),
        ),
        (
            confirmed(*[ran(OTHER, 120), ran(GIVEN, **FULL)] * 2),
            (OTHER, "faster"),
        ),
        ([("search", ran(OTHER, 90, **RETRIED))], (GIVEN, "inconclusive")),
    ],
)
def test_a_given_setting_with_too_little_memory_left_gives_way(others, expected):
    found = decided(("baseline", ran(GIVEN, **FULL)), *others)
    assert (found.chosen, found.verdict) == expected
    assert GIVEN in found.memory_shortage


def test_bf16_that_lacks_memory_is_no_reference():
    best = SPACE.in_bf16(BEST)
    found = decided(
        ("baseline", ran(GIVEN, more={"alloc_retries": 3})),
        ("bf16-baseline", ran(BF16, 120, more={"alloc_retries": 3})),
        ("confirm", ran(BEST, 110)),
        ("confirm", ran(best, 88)),
    )
    values = found.speed.bf16_baseline.value, found.speed.fp8_gain.value
    assert (found.chosen, *values) == (BEST, 88, 1.25)


@pytest.mark.parametrize(
    ("allocator", "said"),
    [
        ("PYTORCH_ALLOC_CONF=a:1", {"setting": "PYTORCH_ALLOC_CONF=a:1"}),
        ("default", None),
        (7, None),
    ],
)
def test_the_allocator_s_setting_is_a_finding(allocator, said):
    more = {"versions": {"allocator": allocator}}
    _, findings = whole(
        trials(("baseline", ran(GIVEN)), ("search", ran(BEST, 120, more=more)))
    )
    assert findings.get("allocator") == said


FEW = Space(
    [KNOBS[0]._replace(values=(1, 2, 4)), KNOBS[1]._replace(values=("none", "full"))]
)


@pytest.mark.parametrize(
    ("outcomes", "more", "is_all"),
    [
        ({(2, 0): "ok", (2, 1): "ok"}, {}, False),
        ({(1, 0): "oom", (0, 1): "ok", (1, 1): "hang", (2, 1): "nan"}, {}, True),
        ({(1, 0): "oom", (1, 1): "oom"}, {}, False),
        ({(1, 0): "oom", (1, 1): "oom", (0, 1): "ok"}, {}, True),
        ({(1, 0): "oom", (1, 1): "oom", (0, 1): "hang"}, {"budget_s": 9.0}, False),
        ({(1, 0): "oom", (1, 1): "oom", (0, 1): "launch"}, {}, False),
        ({(0, 1): "ok"}, {"searched_all": True}, True),
    ],
)
def test_when_no_promising_setting_is_left(outcomes, more, is_all):
    """A batch as large as one that did not fit needs no trial."""
    tried = [
        Trial(number, "search", ran(point, outcome=how, space=FEW))
        for number, (point, how) in enumerate([((0, 0), "ok"), *outcomes.items()])
    ]
    tried[-1] = tried[-1]._replace(**more)
    assert choose(History(FEW, (0, 0), tried)).searched_all is is_all
