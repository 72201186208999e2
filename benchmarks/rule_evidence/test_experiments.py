"""The experiments of rules: what runs is what the rule fires on."""

from benchmarks.rule_evidence.config import shrink
from benchmarks.rule_evidence.experiment import (
    expectation,
    experiments,
    requirement,
)
from fp8tune.job import Target
from fp8tune.lint.engine import check
from tests.each import each
from tests.lint.test_rules import PACK


@each(
    ("rule", "number"),
    [(rule, number) for rule in PACK for number in range(len(experiments(rule)))],
)
def test_an_experiment_is_of_its_rule(rule, number, rules):
    """What runs is what the rule fires on, and its control is not.

    Memory rules fire on configs that fill a GPU; the CPU shows their formula.
    """
    experiment = experiments(rule)[number]
    assert expectation(rule, experiment.expect)
    assert requirement(experiment.needs or "true")
    target = Target(world_size=experiment.ranks, world_size_origin="the experiment")

    def found(config):
        text = shrink(config, experiment.devices[-1]).encode()
        report = check("a.toml", text, rules, target, only="kempnerforge")
        return {d.rule: d.category for d in report.diagnostics}

    of_formula = rule.category == "memory" and "cuda" not in experiment.devices
    assert (rule.name in found(experiment.config)) is not of_formula
    assert rule.name not in found(experiment.control)
    assert "rejected" not in found(experiment.config).values()
    assert not {"rejected", "crash"} & set(found(experiment.control).values())
