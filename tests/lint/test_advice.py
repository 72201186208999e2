"""What a rule advises is nothing that another rule warns of.

Each fix, and each ``key = value`` that a help line names, is followed on the rule's own
bad examples.
"""

import re
import tomllib
from functools import cache
from typing import NamedTuple

from fp8tune.formats.edits import CannotEdit, apply, in_order
from fp8tune.formats.toml.document import InvalidToml, parse
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.examples import plain_config
from fp8tune.lint.rewrite import fixed_bytes
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.recognise import recognise
from tests.each import each

BUILTIN = read_builtin()
RULES = Rules(BUILTIN, {})
PAIR = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+) = ([^`]+)`")
OTHERWISE = re.compile(r"\bor\b|;")

KNOWN = {
    ("unknown-key", "tensor-parallel-from-scratch"): "the key takes effect as meant",
    ("fewer-micro-batches-than-stages", "pipeline-bubble"): (
        "the fewest that start; the help line says how many leave a small bubble"
    ),
    ("mot-with-expert-parallel", "mot-experts-without-balance"): (
        "so with any ep, but said only of a run that starts"
    ),
    ("out-of-memory", "may-not-fit"): "what may fit, where nothing surely does",
    ("mot-with-expert-parallel", "out-of-memory"): "probably so with ep too",
    ("muon-key-without-muon", "muon-gradients-add-up"): "so with muon as meant",
    ("pipeline-with-sharding", "tensor-parallel-from-scratch"): (
        "so with any pp, but said only of a run that starts"
    ),
    ("moe-with-compile", "out-of-memory"): (
        "no fix is offered where the GPU is known and it would not fit"
    ),
    ("learning-rate-below-bf16", "probably-out-of-memory"): (
        "fp32 is not advised where the GPU is known and it would not fit"
    ),
}
"""The rule that advises and the one that warns then, with the reason."""

LARGE = (
    "[model]\ndim = 8192\nn_layers = 80\nn_heads = 64\nn_kv_heads = 8\n"
    "ffn_hidden_dim = 28672\nvocab_size = 128256\nmax_seq_len = 4096\n"
    "[train]\nseq_len = 4096\n"
)
PROFILED = "[profiling]\nenable = true\nstart_step = 20\nend_step = 30\n"
CASES = (
    f'# fp8tune: gpu=h100 world-size=32\n{LARGE}mixed_precision = "fp8"\n',
    f"# fp8tune: gpu=h100 world-size=32\n{LARGE}",
    f"# fp8tune: gpu=h100 world-size=32\n{LARGE}[distributed]\ntp = 2\n",
    f"# fp8tune: gpu=h200 world-size=32\n{LARGE}batch_size = 2\ngrad_accum_steps = 4\n",
    '[model]\nnum_experts = 8\n[train]\nmixed_precision = "fp8"\n',
    '[model]\nnum_experts = 8\n[train]\nmixed_precision = "fp8"\n'
    "compile_model = false\n",
    f"[train]\nmax_steps = 10\n[scheduler]\nwarmup_steps = 2\n{PROFILED}",
    "[train]\nmax_steps = 1\n",
    "# fp8tune: world-size=8\n[distributed]\ndp_replicate = 8\n",
    "# fp8tune: world-size=2\n[distributed]\ncp = 2\n",
)
"""Configs whose advice once led in a circle, or to what the trainer refuses."""

TARGETS = (Target(), Target("h200", 32))


class Step(NamedTuple):
    """A config before and after one piece of advice."""

    rule: str
    advice: str
    before: bytes
    after: bytes


@cache
def severities(data, target):
    report = check("a.toml", data, RULES, target, only="kempnerforge")
    return {found.rule: found.severity for found in report.diagnostics}


def brought(step, target):
    """Rules above notes that fire after a step and did not before it."""
    before, after = (severities(data, target) for data in (step.before, step.after))
    if step.rule not in before:
        return set()
    return {name for name in after.keys() - before if after[name] != "note"}


def is_of_another_trainer(data):
    try:
        found = recognise(parse(data).values, explicit=True).trainer
    except InvalidToml:
        return False
    return found not in ("", "kempnerforge")


def findings():
    for text in CASES:
        report = check("a.toml", text.encode(), RULES, Target(), only="kempnerforge")
        yield from ((text.encode(), found) for found in report.diagnostics)
    for rule in (rule for rule in BUILTIN if rule.is_for("kempnerforge")):
        for example in rule.bad:
            data = plain_config(example).encode()
            if is_of_another_trainer(data):
                continue
            report = check("a.toml", data, RULES, Target(), only="kempnerforge")
            yield from ((data, d) for d in report.diagnostics if d.rule == rule.name)


def steps():
    """Every fix, and every alternative of a help line that says values."""
    for data, found in findings():
        if found.fix:
            after = fixed_bytes(data, [found])
            yield Step(found.rule, found.fix.title, data, after)
        for words in OTHERWISE.split(found.help):
            pairs = PAIR.findall(words)
            values = {tuple(key.split(".")): value_of(value) for key, value in pairs}
            if values and None not in values.values():
                after = with_values(data, values)
                if after is not None:
                    yield Step(found.rule, words.strip(), data, after)


def value_of(text):
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return None


def with_values(data, values):
    document = parse(data)
    try:
        return apply(document.text, in_order(document.set_values(values))).encode()
    except CannotEdit:
        return None


STEPS = list(steps())


def test_there_is_advice_of_both_kinds():
    assert len({step.rule for step in STEPS}) > 80


@each("target", TARGETS, ids=["no target", "32 H200"])
@each("step", STEPS, ids=lambda step: f"{step.rule}: {step.advice}")
def test_advice_brings_in_nothing_that_another_rule_warns_of(step, target):
    new = brought(step, target)
    assert {name for name in new if (step.rule, name) not in KNOWN} == set()


def test_the_known_ones_are_still_there():
    found = {(s.rule, name) for t in TARGETS for s in STEPS for name in brought(s, t)}
    assert set(KNOWN) <= found
