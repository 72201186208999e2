"""What the pages of rules, keys and facts hold."""

import pytest

from fp8tune.config.mark import read_ignores
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.explain import explain, keys
from fp8tune.lint.explain.derivation import Node
from fp8tune.lint.explain.fact import fact_page
from fp8tune.lint.explain.formula import Formula
from fp8tune.lint.explain.key import default, kind, takes
from fp8tune.lint.explain.myths import about
from fp8tune.lint.explain.rule import FindingText, FixText, Part, Verdict, rule_page
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


FP8_AND_WIDTH = [
    Part('precision == "fp8"', "true"),
    Part("hidden_size % 16 != 0", "true"),
    Part("not fp8.leaves_odd_sizes", "true"),
]
VALUES = [
    Node("precision", "fp8", True, "", "train.mixed_precision, line 8"),
    Node("hidden_size", 2050, True, "", "model.dim, line 3"),
    Node("fp8.leaves_odd_sizes", False, True, "", ""),
]


def verdict(name, config):
    return rule_page(BUILTIN[name], config).verdict


def test_a_verdict_that_fires(config):
    message = (
        "`model.dim = 2050` is not a multiple of 16, "
        "which every FP8 GEMM needs for K and N"
    )
    assert verdict("fp8-hidden-size-not-16", config()) == Verdict(
        "a.toml", "fires", [FindingText(3, message, None)], FP8_AND_WIDTH, VALUES
    )


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


def test_a_key():
    page = explain("train.mixed_precision")
    assert (page.trainer, page.type, page.default, page.field) == (
        "KempnerForge",
        "text",
        '"bf16"',
        "precision",
    )
    assert page.takes == '"bf16", "fp16", "fp32", "fp8"'
    assert {"precision", "dtype", "fp8", "use_fp8"} <= set(page.called)
    assert {"fp8-with-tensor-parallel", "fp8-without-compile"} <= set(page.rules)
    assert {"fp8_recipe", "memory.peak_gib"} <= set(page.facts)
    assert "precision" not in page.facts
    assert page.myths == about("precision")
    assert page.value is None


def test_a_key_with_a_config(config):
    page = explain("train.batch_size", config())
    assert page.value == Node("train.batch_size", 4, True, "sequences", "line 7")
    assert explain("data.datasets[].weight", config()).value is None


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


def test_a_fact():
    page = fact_page("kempnerforge", "memory.logits_gib")
    assert page._replace(rules=[]) == page._replace(
        name="memory.logits_gib",
        trainer="",
        meaning="Logits and their gradients in the backward pass of the loss [GiB].",
        details="",
        unit="GiB",
        said="",
        formula=Formula(
            ("head_tokens * vocab_size * logit_bytes / GIB",), {"GIB": 2**30}
        ),
        inputs=["head_tokens", "vocab_size", "logit_bytes"],
        derivation=None,
        rules=[],
    )
    assert "memory.peak_gib" in page.facts
    assert "may-not-fit" in page.rules
