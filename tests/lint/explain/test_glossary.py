"""The words of fp8tune: each is found however it is spelt, and nothing hides it."""

from collections import Counter
from pathlib import Path

from fp8tune.lint.explain import explain
from fp8tune.lint.explain.glossary import Term, term, terms
from fp8tune.lint.explain.text import text
from tests.each import each

ROOT = Path(__file__).parents[3]


def test_no_word_has_two_entries():
    names = Counter(n.casefold() for t in terms() for n in (t.name, *t.also))
    assert set(names.values()) == {1}


@each("entry", terms(), ids=lambda entry: entry.name)
def test_a_word_is_explained(entry):
    for name in (entry.name, *entry.also):
        assert explain(name) is entry
    assert " ".join(entry.meaning.split()) in " ".join(text(entry).split())
    assert not entry.see or (ROOT / entry.see).is_file()


@each(
    ("word", "name"),
    [
        ("Micro Batch", "micro-batch"),
        ("ac", "activation checkpointing (AC)"),
        (" MAY-NOT-FIT", "may not fit"),
    ],
)
def test_a_word_in_another_spelling(word, name):
    assert term(word).name == name


def test_names_of_rules_keys_and_fields_come_first():
    for name in ("may-not-fit", "micro_batch", "ac", "memory", "gemm"):
        assert not isinstance(explain(name), Term)
    assert explain("trian.seq_len") is None  # the command proposes train.seq_len
