"""What the pages of rules, keys and facts hold."""

import pytest

from fp8tune.config.mark import read_ignores
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.explain import keys
from fp8tune.lint.explain.key import default, kind, takes
from fp8tune.lint.explain.rule import FixText, rule_page
from fp8tune.lint.rules import Rule
from tests.each import each
from tests.sample import NO_PIPELINE

BUILTIN = {rule.name: rule for rule in read_builtin()}
MORE = '''
[[fix]]
safety = "unsafe"
title = "set pp to 1, not {pp}"
changes = "fewer GPUs"
set = { pp = "1" }
[[experiment]]
config = "x"
expect = "crash"
[[bad]]
config = """
[distributed]
pp = «2»
"""
fixed = """
[distributed]
pp = 1
"""
[[bad]]
config = """
[distributed]
pp = «4»
"""
'''


@each("rule", BUILTIN.values(), ids=lambda rule: rule.name)
def test_the_page_of_every_rule(rule):
    page = rule_page(rule)
    head = (page.name, page.code, page.category, page.severity, page.summary)
    assert head == (rule.name, rule.code, rule.category, rule.severity, rule.summary)
    assert (len(page.bad), len(page.good)) == (len(rule.bad), len(rule.good))
    assert not set("".join(page.good)) & set("\u00ab\u00bb\u2039\u203a\ufeff")
    for example in page.bad:
        assert example.message.startswith(f"{rule.severity}: ")
        assert example.finding.startswith(f"{rule.severity}[{rule.name}] ")


def test_fixes_of_the_examples_and_experiments_of_the_file():
    head = {"name": "no-pipeline", "code": "ME301", "severity": "warning"}
    text = f"{NO_PIPELINE}{MORE}"
    page = rule_page(Rule("x", "slow", head | {"when": "pp > 1"}, text))
    fix = FixText("unsafe", "set pp to 1, not 2", "fewer GPUs")
    assert page.fixes == [fix]
    assert [(example.fix, example.fixed) for example in page.bad] == [
        (fix, "[distributed]\npp = 1"),
        (fix._replace(title="set pp to 1, not 4"), ""),
    ]
    assert page.experiments == [{"config": "x", "expect": "crash"}]


def verdict(name, config):
    return rule_page(BUILTIN[name], config).verdict


def test_a_verdict_that_is_held_back(config):
    text = (
        '[train]\nmixed_precision = "fp8"\n'
        "compile_model = false  # fp8tune: ignore[fp8-without-compile]\n"
    )
    read = config(text)
    assert read_ignores(read.document)
    found = verdict("fp8-without-compile", read)
    assert (found.state, [each.line for each in found.findings]) == ("ignored", [3])


def test_a_verdict_that_lacks_a_fact(config):
    found = verdict("gpu-without-fp8", config())
    assert (found.state, [part.state for part in found.parts]) == (
        "unknown",
        ["true", "unknown", "true"],
    )
    assert found.values[1].origin == "needs gpu"
    assert verdict("gpu-without-fp8", config(gpu="h100")).state == "silent"
    assert verdict("gpu-without-fp8", config(gpu="a100-80gb")).state == "fires"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("[train]\nbatchsize = 4\nseq_len = 16\n", "fires"),
        ("[train]\nseq_len = 16\n", "silent"),
    ],
)
def test_a_verdict_of_a_rule_on_faults(config, text, state):
    found = verdict("unknown-key", config(text))
    assert (found.state, found.parts, found.values) == (state, [], [])


@each(
    ("name", "words"),
    [
        ("optimizer.betas", ("array", "[0.9, 0.95]", "at least 0 and below 1")),
        ("distributed.dp_shard", ("whole number", "-1", "-1 or above 0")),
        ("train.data_seed", ("whole number", "unset", "")),
        ("vlm.freeze[].module", ("text", "none, the key is required", "")),
        (
            "model.moe_top_k",
            ("whole number", "2", "above 0 (checked if num_experts > 0)"),
        ),
    ],
)
def test_type_default_and_range_in_words(name, words):
    key = keys()[name]["kempnerforge"]
    assert (kind(key), default(key), takes(key)) == words
