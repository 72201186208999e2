"""Every built-in rule: well-formed, backed by evidence, and its examples hold."""

import re
import tomllib

import pytest

from fp8tune.lint.builtin import CAUSES, builtin_folder, rule_files
from fp8tune.lint.examples import lint_example, run_examples
from fp8tune.trainers import faults
from fp8tune.trainers.about import trainers
from tests.each import each
from tests.lint.every_rule import PACK, each_rule

DIGIT = {
    "rejected": "1",
    "crash": "2",
    "silent": "3",
    "slow": "4",
    "memory": "5",
    "stability": "6",
    "hygiene": "7",
}
SEVERITIES = {
    **dict.fromkeys(("rejected", "crash"), ("error",)),
    **dict.fromkeys(("slow", "hygiene"), ("warning", "note")),
}
"""The severities of a category; of others it is any."""


def test_every_file_below_the_rules_folder_is_a_rule(repository):
    rules = repository / "rules"
    causes = set((rules / CAUSES).iterdir())  # tests/verify checks them
    files = {path.resolve() for path in rules.rglob("*.*") if path not in causes}
    read = {(repository / path).resolve() for _, path in rule_files(builtin_folder())}
    assert files == read


@each_rule
def test_examples_hold(rule, rules):
    assert list(run_examples([rule], rules)) == []


@pytest.mark.parametrize("field", ["name", "code"])
def test_names_and_codes_are_unique(field):
    values = [getattr(rule, field) for rule in PACK]
    assert sorted(values) == sorted(set(values))


@each_rule
def test_a_rule_is_well_formed(rule, repository):
    assert rule.path.endswith(f"/{rule.category}/{rule.name}.toml")
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert re.fullmatch(rf"FP8{DIGIT[rule.category]}\d\d\d?", rule.code)
    assert rule.severity in SEVERITIES.get(rule.category, (rule.severity,))
    assert rule.category != "rejected" or rule.confidence == "certain"
    assert 0 < len(rule.summary) <= 80
    assert not rule.summary.endswith(".")
    assert len(rule.why.split()) >= 5
    assert rule.bad
    assert rule.good
    public = [a for a in rule.references if a.startswith("https://")]
    assert public or rule.category == "hygiene"  # that is about our own comments
    files = [a for a in rule.references if a not in public]
    assert all((repository / a.partition("#")[0]).is_file() for a in files)


SPOILED = {
    # FP8 damages the weights, or some are never trained
    "te-freezes-tied-head",
    "fp8-drops-biases",
    "fp8-weights-lost-between-checkpoints",
    "fp8-with-8-bit-weights",
    "fp8-weights-lost-in-async-checkpoint",
    # prime-rl starts another run than the one that is checked
    "gpus-contradict-deployment",
}
SWITCHED_ON = {rule.name for rule in PACK if rule.fp8 == "off"}
SWITCHED_ON -= {"fp8-section-not-enabled"}  # that lacks the switch


def test_a_run_that_fp8_spoils_is_an_error():
    """The other silent rules are warnings: the run trains (docs/guides/lint.md)."""
    silent = [rule for rule in PACK if rule.category == "silent"]
    assert {rule.name for rule in silent if rule.severity == "error"} == (
        SPOILED | SWITCHED_ON
    )


@each(
    "rule",
    [
        rule
        for rule in PACK
        if rule.category in ("crash", "slow", "memory")
        and (not rule.trainers or "kempnerforge" in rule.trainers)
        and "versions." not in rule.source  # a machine has one set of them
    ],
    ids=lambda rule: rule.name,
)
def test_what_stops_or_slows_a_run_can_be_shown_on_a_gpu(rule):
    assert [e for e in rule.data["experiment"] if e.get("device") != "cpu"]


@each_rule
def test_every_template_fills_on_its_bad_examples(rule, rules):
    for example in rule.bad:
        finding = next(
            finding
            for finding in lint_example(example, rules).diagnostics
            if finding.rule == rule.name
        )
        texts = [finding.message, finding.help, *(x.text for x in finding.labels)]
        assert finding.message
        assert finding.labels[0].text
        assert [text for text in texts if re.search(r"\{[a-z_.]+[(}]", text)] == []


@each("kind", faults.kinds())
def test_each_fault_of_a_trainer_has_exactly_one_rule(kind):
    rules = [rule for rule in PACK if rule.fault == kind]
    owners = [owner for rule in rules for owner in rule.trainers or ("any",)]
    assert owners
    assert len(owners) == len(set(owners))
    assert "any" not in owners or len(rules) == 1


@each("rule", PACK, ids=lambda rule: rule.name)
def test_no_message_gives_a_field_for_a_key(rule):
    """A field that follows from several keys has a value that none of them takes."""
    known = trainers()
    names = [name for name in rule.trainers or known if not known[name].own]
    fields = {field for name in names for field in known[name].settings}
    if rule.name == "gradients-kept-unsharded":
        fields -= {"grad_accum"}  # torchtitan never keeps them
    with open(rule.path, "rb") as file:
        data = tomllib.load(file)
    texts = [data["message"], data.get("help", "")]
    texts += [fix.get("title", "") for fix in data.get("fix", ())]
    found = re.findall(r"key\((\w+)\)\}`? =", "\n".join(texts))
    assert fields.isdisjoint(found)
