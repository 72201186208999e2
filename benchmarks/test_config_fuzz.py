"""Mutated configs: a share of ``python -m benchmarks.config_fuzz``."""

from functools import cache, partial

from benchmarks.config_fuzz import TARGETS, corpus, mutated, tried
from fp8tune.formats.document import Unreadable
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.needs import needs_of
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.trainer import trainer


def test_lint_raises_nothing():
    runs = tried(3, range(200))
    assert [run for run in runs if run.error] == []
    assert {"clean", "findings", "invalid", "rewritten"} <= {run.what for run in runs}
    assert mutated(3, 7) == mutated(3, 7) != mutated(4, 7)


def test_rules_that_are_skipped_would_be_silent():
    """The check of a wheel, which skips rules that lack what they need, misses none."""
    rules = read_builtin()
    known = cache(partial(needs_of, rules))
    assert sum(map(bool, known(trainer("kempnerforge"))[1].values())) > len(rules) / 3
    every, some = Rules(rules, {}), Rules(rules, {}, needs_of=known)
    sources = corpus().sources["kempnerforge"]
    texts = [source.text.encode() for source in sources[::3]]
    configs = (mutated(2, number) for number in range(1000))
    texts += [one.data for one in configs if one.trainer == "kempnerforge"]
    for number, data in enumerate(dict.fromkeys(texts)):
        target = TARGETS[number % len(TARGETS)]
        assert reported(data, some, target) == reported(data, every, target)


def reported(data, rules, target):
    """The report on a file; none if it is unreadable."""
    try:
        return check("config.toml", data, rules, target)
    except Unreadable:
        return None
