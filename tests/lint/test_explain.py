"""The page of every rule, key and fact."""

import pytest

from fp8tune.facts import FACTS
from fp8tune.job import FIELDS
from fp8tune.lint.explain import explain, nearest, rule_page
from fp8tune.lint.packs import read_pack
from fp8tune.lint.rules import read_builtin
from fp8tune.trainers.trainer import trainer

KEYS = dict(trainer("kempnerforge").schema.dotted_keys())

PAGE = """\
tp-does-not-divide-kv-heads (FP8128)

Key/value heads that tensor parallelism cannot share out

rejected, error, confidence certain; checks of KempnerForge configs

when: tp > 1 and kv_heads % tp != 0

Tensor parallelism gives each rank whole key/value heads; with GQA there are few.

Fires on:

    [model]
    n_heads = 32
    n_kv_heads = 4
    [distributed]
    tp = 8

Silent on:

    [model]
    n_heads = 32
    n_kv_heads = 4
    [distributed]
    tp = 4

Evidence:
  https://github.com/KempnerInstitute/KempnerForge/blob/5666d0d/kempnerforge/config/\
job.py"""


@pytest.mark.parametrize("name", ["tp-does-not-divide-kv-heads", "FP8128"])
def test_a_rule(name):
    assert explain(name) == PAGE


@pytest.mark.parametrize("rule", read_builtin(), ids=lambda rule: rule.name)
def test_every_rule_has_a_page_without_marks(rule):
    page = explain(rule.name)
    assert page == explain(rule.code)
    assert page.startswith(f"{rule.name} ({rule.code})\n\n{rule.summary}\n")
    assert not set(page) & set("«»\u2039\u203a\ufeff")


def test_a_bare_rule_of_a_user(tmp_path):
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "mine.toml").write_text("""
name = "mine"
code = "ME1"
summary = "s"
severity = "note"
confidence = "high"
since = "1"
when = "tp > 1"
message = "m"
references = ["https://example.org"]
[[at]]
key = "tp"
""")
    assert rule_page(read_pack(str(tmp_path))[0]) == (
        "mine (ME1)\n\ns\n\nslow, note, confidence high; checks all configs\n\n"
        "when: tp > 1\n\nEvidence:\n  https://example.org"
    )


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        (
            "distributed.tp",
            [
                "distributed.tp (KempnerForge)",
                "",
                "Tensor-parallel degree.",
                "",
                "type: int",
                "default: 1",
            ],
        ),
        (
            "model.n_kv_heads",
            [
                "model.n_kv_heads (KempnerForge)",
                "",
                "Key/value heads (GQA). Left out it becomes 32, not n_heads.",
                "",
                "type: int",
                "default: 32",
            ],
        ),
        (
            "checkpoint.export_dtype",
            [
                "checkpoint.export_dtype (KempnerForge)",
                "",
                "Read by nothing in the trainer.",
                "",
                'type: one of ["float32", "bfloat16"]',
                'default: "bfloat16"',
                "rules: dead-key",
                "source: https://github.com/KempnerInstitute/KempnerForge/tree/5666d0d/"
                "kempnerforge/config",
            ],
        ),
        (
            "train.data_seed",
            [
                "train.data_seed (KempnerForge)",
                "",
                "Seed of the data order; absent = seed.",
                "",
                "type: int",
                "default: unset",
            ],
        ),
    ],
)
def test_a_key(key, lines):
    assert explain(key).split("\n")[: len(lines)] == lines


def test_the_page_of_a_key_lists_the_rules_that_read_it():
    (listed,) = [
        line
        for line in explain("distributed.ep").split("\n")
        if line.startswith("rules")
    ]
    names = listed.removeprefix("rules: ").split(", ")
    assert {
        "ep-does-not-divide-experts",
        "expert-parallel-without-experts",
        "world-size-not-divisible",
    } <= set(names)
    assert "fp8-with-tensor-parallel" not in names


@pytest.mark.parametrize("key", KEYS)
def test_every_key_has_a_page(key):
    assert explain(key).startswith(f"{key} (KempnerForge)\n")


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_has_a_page_with_its_inputs(fact):
    name, meaning, *_, inputs = explain(fact).split("\n\n")
    assert name == fact
    assert meaning.split("\n")[0] == FACTS[fact].call.__doc__.split("\n")[0]
    words = inputs.removeprefix("from: ").split(", ")
    assert [word.replace(".", "_") for word in words] == [*FACTS[fact].parameters]
    assert all(word in FACTS or "." not in word for word in words)


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_has_a_page(field):
    assert explain(field) == f"{field}\n\n{FIELDS[field]}"


@pytest.mark.parametrize("name", ["", "nosuch", "train", "FP8", "fault.key"])
def test_no_page(name):
    assert explain(name) is None


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("fp8-with-tensor-paralel", "fp8-with-tensor-parallel"),
        ("train.seqlen", "train.seq_len"),
        ("memory.flor_gib", "memory.floor_gib"),
        ("micro_bach", "micro_batch"),
        ("zzzzzzzz", ""),
    ],
)
def test_nearest(name, near):
    assert nearest(name) == near
