"""What holds for the fixes of all built-in rules, over all their examples and more."""

import random
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.examples import name_of, plain_config
from fp8tune.lint.rewrite import apply_fixes, fixed_bytes
from fp8tune.lint.rules import Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.packages import assuming
from fp8tune.trainers.trainer import trainer
from tests.each import each
from tests.formats.toml.values import without_empty
from tests.formats.toml.writer import Writer
from tests.support.verdicts import cases, corpus

ROOT = Path(__file__).parents[2]
BUILTIN = read_builtin()
RULES = Rules(BUILTIN, {})
BY_NAME = {rule.name: rule for rule in BUILTIN}


class Case(NamedTuple):
    """A config, the GPUs that it is for, and its trainer if its keys do not tell."""

    id: str
    text: str
    target: Target = Target()
    trainer: str = ""
    file: str = "a.toml"
    installed: dict[str, str] = {}

    def look(self, data, rules=RULES):
        with assuming(self.installed):
            return check(self.file, data, rules, self.target, only=self.trainer)


def case_of(example, name=""):
    file, installed = name_of(example), example.installed
    return Case(name, plain_config(example), file=file, installed=installed)


def examples():
    for rule in BUILTIN:
        for kind, shown in (("bad", rule.bad), ("good", rule.good)):
            for number, example in enumerate(shown, 1):
                yield rule, f"{rule.name}-{kind}-{number}", example


def labelled():
    for number, said in enumerate(cases(corpus("kempnerforge"))):
        target = Target("h100", said["world_size"])
        yield Case(f"labelled-{number}", said["toml"], target, "kempnerforge")


def samples():
    for path in sorted((ROOT / "configs").glob("*.toml")):
        yield Case(path.name, path.read_text(encoding="utf-8"))


CORPUS = [
    *(case_of(example, name) for _, name, example in examples()),
    *labelled(),
    *samples(),
]
FIXED = [(rule, example) for rule, _, example in examples() if example.fixed]


ALONE = Case("", "")


def the_finding(rule, data, case=ALONE):
    found = case.look(data).diagnostics
    (found,) = (d for d in found if d.rule == rule.name)
    return found


@each(("rule", "example"), FIXED)
def test_only_edited_bytes_change(rule, example):
    before = plain_config(example)
    bom = before.startswith("\ufeff")
    text, end = "", 0
    found = the_finding(rule, before.encode(), case_of(example))
    for change in found.fix.edits:
        text += before[end : change.start + bom] + change.text
        end = change.end + bom
    assert text + before[end:] == example.fixed != before


@each(("rule", "example"), FIXED)
def test_all_fixes_together_come_to_an_end(rule, example):
    case = case_of(example)
    once = apply_fixes(case.text.encode(), case.look, unsafe=True)
    assert once.fixed
    assert apply_fixes(once.data, case.look, unsafe=True).fixed == ()


NO_LAYOUT = {
    "byte-order-mark",
    "bad-ignore",
    "expired-ignore",
    "unknown-ignore",
    "unused-ignore",
}
"""Rules about bytes and comments, which another layout does not have."""


@each("newline", ["\n", "\r\n"])
@each(
    ("rule", "example"),
    [
        (rule, example)
        for rule, example in FIXED
        if rule.name not in NO_LAYOUT and example.format == "toml"
    ],
)
def test_a_fix_means_the_same_in_every_layout(rule, example, newline):
    """Headers, dotted keys, inline tables, comments: the values are the example's.

    A comment inside an array may stand in a fix's way.
    """
    config = plain_config(example)
    comments = "".join(re.findall(r"^#.*\n", config, re.MULTILINE))
    expected, written = tomllib.loads(example.fixed), 0
    for seed in range(12):
        writer = Writer(random.Random(seed), bare=seed % 2 == 0)
        text = writer.document(tomllib.loads(config))
        data = (comments + text).replace("\n", newline).encode()
        if tomllib.loads(data.decode()) != tomllib.loads(config):
            continue
        found = the_finding(rule, data)
        if found.fix is not None:
            written += 1
            after = tomllib.loads(fixed_bytes(data, [found]).decode())
            assert without_empty(after) == without_empty(expected)
    assert written


def fix_number(rule, found, data, case):
    """Which ``[[fix]]`` of a rule was taken for a finding."""
    for number in range(len(rule.data["fix"])):
        one = Rule(rule.path, rule.category, {**rule.data}, "")
        one.data = {**rule.data, "fix": rule.data["fix"][: number + 1]}
        others = [other for other in BUILTIN if other is not rule]
        rules = Rules([one, *others], {})
        report = case.look(data, rules)
        if any((d.rule, d.fix) == (rule.name, found.fix) for d in report.diagnostics):
            return number
    raise AssertionError(rule.name)


@each("rule", [r for r in BUILTIN if r.data.get("fix")], ids=lambda rule: rule.name)
def test_every_fix_is_shown_by_an_example(rule):
    shown = set()
    for example in rule.bad:
        if example.fixed:
            data, case = plain_config(example).encode(), case_of(example)
            found = the_finding(rule, data, case)
            shown.add(fix_number(rule, found, data, case))
    assert shown == set(range(len(rule.data["fix"])))


def rests_on(found):
    """The config keys that decide whether a finding's rule fires."""
    rule = BY_NAME[found.rule]
    if rule.fault:
        return frozenset((found.key,))
    words = trainer("kempnerforge").vocabulary
    return frozenset(key for name in rule.when.names for key in words.origins(name))


def test_no_two_rules_report_the_same_fault():
    """The same fault: the same spans, for the sake of the same keys.

    Two rules may well point at one key (``tp`` neither goes with FP8 nor with a VLM),
    but then each rests on another one too.
    """
    twice = Counter()
    for case in CORPUS:
        seen = {}
        for found in case.look(case.text.encode()).diagnostics:
            spans = frozenset(label.region for label in found.labels)
            fault = (spans, rests_on(found), found.message * (found.key == ""))
            twice[seen.setdefault(fault, found.rule), found.rule] += fault in seen
            seen[fault] = found.rule
    same = {pair for pair, count in twice.items() if count and pair[0] != pair[1]}
    assert same == set()


def test_no_rule_reports_a_key_twice():
    for case in CORPUS:
        found = case.look(case.text.encode()).diagnostics
        tally = Counter((d.rule, d.key, d.region) for d in found)
        assert [one for one, count in tally.items() if count > 1] == [], case.id


def errors(report):
    found = [d for d in report.diagnostics if d.severity == "error"]
    return Counter((d.rule, d.key) for d in found)


@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
def test_no_advice_contradicts_another(unsafe):
    """Fixes of all findings together reach an end: none undoes what another did.

    What is left would bring in an error: a run that fits compiled does not fit eager.
    """
    undone = set()
    for case in CORPUS:
        if not any(d.fix for d in case.look(case.text.encode()).diagnostics):
            continue
        end = apply_fixes(case.text.encode(), case.look, unsafe=unsafe)
        for found in end.report.diagnostics:
            if found.fix and (unsafe or found.fix.safety == "safe"):
                after = case.look(fixed_bytes(end.data, [found]))
                if not errors(after) - errors(end.report):
                    undone.add((case.id, found.rule))
    assert undone == set()
