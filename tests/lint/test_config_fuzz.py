"""Mutated configs: a share of ``python -m benchmarks.config_fuzz``."""

from benchmarks.config_fuzz import TARGETS, corpus, mutated, tried
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.needs import needs
from fp8tune.lint.ruleset import Rules
from fp8tune.toml.document import Unreadable


def test_lint_raises_nothing():
    runs = tried(3, range(200))
    assert [run for run in runs if run.error] == []
    assert {"clean", "findings", "not TOML", "rewritten"} <= {run.what for run in runs}
    assert mutated(3, 7) == mutated(3, 7) != mutated(4, 7)


def test_what_is_raised_is_told(monkeypatch):
    def raises(*_, **__):
        raise OverflowError("too large")

    monkeypatch.setattr("benchmarks.config_fuzz.check", raises)
    (run,) = tried(3, range(1))
    assert (run.what, run.error.partition(" in ")[0]) == ("raised", "OverflowError")


def test_rules_that_are_skipped_would_be_silent():
    """The check of a wheel, which skips rules that lack what they need, misses none."""
    rules, skipping = read_builtin(), read_builtin()
    for rule in skipping:
        rule.needs = needs(rule)
    assert sum(bool(rule.needs) for rule in skipping) > len(rules) / 2
    every, some = Rules(rules, {}), Rules(skipping, {})
    texts = [text.encode() for text in dict.fromkeys(corpus().texts)]
    texts += [mutated(2, number) for number in range(200)]
    for number, data in enumerate(texts):
        target = TARGETS[number % len(TARGETS)]
        assert reported(data, some, target) == reported(data, every, target)


def reported(data, rules, target):
    """The report on a file; none if it is unreadable."""
    try:
        return check("config.toml", data, rules, target)
    except Unreadable:
        return None
