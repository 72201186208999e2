"""Every name has a page, and a name that is nearly right is guessed."""

import pytest

from fp8tune.facts import FACTS
from fp8tune.fields import FIELDS
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.explain import (
    MAX_FOUND,
    Entry,
    FactPage,
    KeyPage,
    ListPage,
    MythPage,
    RulePage,
    explain,
    keys,
    nearest,
    search,
)
from fp8tune.lint.explain.myths import myths
from fp8tune.lint.explain.text import KINDS, WIDTH, data, text
from fp8tune.lint.rules import CONSEQUENCES
from fp8tune.trainers.trainer import trainer
from tests.each import each

WORDS = trainer("kempnerforge").vocabulary
RULES = [word for rule in read_builtin() for word in (rule.name, rule.code)]
COMPUTED = WORDS.computed.keys() - keys().keys()
"""Names of KempnerForge's job that are no key of another trainer."""

EVERY = [
    *((name, RulePage) for name in RULES),
    *((name, KeyPage) for name in keys() if name not in FIELDS),
    *((name, FactPage) for name in sorted({*FACTS, *FIELDS, *COMPUTED})),
    *((myth.name, MythPage) for myth in myths()),
    *((name, ListPage) for name in ("train", "vlm", "slow", "memory", "gpu.")),
    ("myths", MythPage),
]


@each(("name", "kind"), EVERY[:-2])
def test_every_name_has_a_page_that_fits_80_columns(name, kind):
    page = explain(name)
    assert type(page) is kind
    assert f'"kind": "{KINDS[kind]}"' in data(page)
    lines = text(page).split("\n")
    long = [line for line in lines if len(line) > WIDTH and "http" not in line]
    assert [line for line in long if " " in line.strip() and line[:2] != "  "] == []
    assert lines[-1]


@each("name", ["", "nosuch", "FP8", "fault.key", "gpu.", "train."])
def test_no_page(name):
    assert explain(name) is None


def test_a_section_a_category_and_a_group_are_lists():
    assert explain("video").entries[0] == Entry(
        "video.data_root", "Folder of the video data set."
    )
    page = explain("memory")
    assert page.meaning == CONSEQUENCES["memory"]
    names = [entry.name for entry in page.entries]
    assert {"may-not-fit", "memory.peak_gib"} <= set(names)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("tensor parallel fp8", "fp8-tensor-parallel-gathers-bf16"),
        ("FP8 TENSOR-Parallel", "fp8-tensor-parallel-gathers-bf16"),
        ("activation checkpointing", "train.activation_checkpointing"),
        ("diverge swiglu", "fp8-swiglu-beyond-200b-tokens"),
    ],
)
def test_words_find_the_pages_that_have_them(words, first):
    page = search(words)
    assert (page.name, page.entries[0].name) == (words, first)
    assert len(page.entries) <= MAX_FOUND
    assert all(explain(entry.name) is not None for entry in page.entries)


@each(
    ("name", "near"),
    [
        ("fp8-with-tensor-paralel", "fp8-with-tensor-parallel"),
        ("fp8101", "FP8101"),
        ("train.seqlen", "train.seq_len"),
        ("memory.peek_gib", "memory.peak_gib"),
        ("dim", "model.dim"),
        ("train.gradient_checkpointing", "train.activation_checkpointing"),
        ("use_fp8", "train.mixed_precision"),
        ("mtyhs", "myths"),
        ("zzzzzzzz", ""),
    ],
)
def test_nearest(name, near):
    assert nearest(name) == near


@each(
    ("whose", "name", "also"),
    [
        ("", "axolotl", ["automodel", "llamafactory"]),
        ("llamafactory", "llamafactory", ["automodel", "axolotl"]),
    ],
)
def test_a_key_of_several_trainers_names_the_others(whose, name, also):
    page = explain("fp8", whose=whose)
    assert (page.trainer, page.also) == (trainer(name).schema.title, also)
    shown = [f"  fp8tune explain fp8 --trainer {name}" for name in also]
    assert [line for line in text(page).split("\n") if "--trainer" in line] == shown
