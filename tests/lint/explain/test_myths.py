"""The answers to what people say: whole, and where they are looked for."""

from collections import Counter
from pathlib import Path

from fp8tune.lint.explain import explain
from fp8tune.lint.explain.myths import myths
from fp8tune.lint.explain.text import text
from tests.each import each

ROOT = Path(__file__).parents[3]


def test_names_and_claims_are_unique():
    for field in ("name", "claim"):
        counts = Counter(getattr(myth, field) for myth in myths())
        assert set(counts.values()) == {1}


@each("myth", myths(), ids=lambda myth: myth.name)
def test_a_myth_is_whole_and_shown_where_it_belongs(myth):
    assert myth.verdict in ("false", "unproven", "depends")
    assert myth.answer.endswith(".\n")
    assert myth.about
    for name in myth.about:
        assert myth in explain(name).myths
        assert f'"{myth.claim}": {myth.verdict}' in " ".join(
            text(explain(name)).split()
        )


@each("myth", myths(), ids=lambda myth: myth.name)
def test_a_myth_cites_what_can_be_read(myth):
    assert myth.sources
    for source in myth.sources:
        assert source.startswith("https://") or (ROOT / source).is_file()
