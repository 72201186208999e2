"""Rules over one config: what fires, and where it points."""

import gc

import pytest

from fp8tune.job import Job, Target
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from tests.each import each
from tests.sample import TP


def test_findings_stand_in_the_order_of_the_file(lint):
    text = """\
[train]
mixed_precision = "fp8"
compile_model = false
max_steps = 0
[model]
dim = 100
n_heads = 7
zzz = 1
"""
    found = lint(text).diagnostics
    assert [d.region for d in found] == sorted(d.region for d in found)
    assert len(found) >= 4


@pytest.mark.parametrize(
    ("text", "place", "note"),
    [
        ("[train]\nmax_steps = 20\n", (2, 13, 2, 15), True),
        ("[train]\nmax_steps = 20\n[scheduler]\n", (2, 13, 2, 15), True),
        ("[scheduler]\nwarmup_steps = 200000\n", (2, 16, 2, 22), False),
        ("[scheduler]\nwarmup_steps = 200000\n[train]\n", (2, 16, 2, 22), False),
    ],
)
def test_a_key_that_is_left_out_points_at_the_next_best_place(lint, text, place, note):
    (found,) = lint(text).diagnostics
    assert (found.rule, found.key) == (
        "warmup-longer-than-run",
        "scheduler.warmup_steps",
    )
    assert found.region == place
    assert (
        found.labels[0].text.startswith("`scheduler.warmup_steps` is not set") is note
    )


@each(
    ("text", "key", "region"),
    [
        ("[train]\nseq_len = 0\n", "train.seq_len", (2, 11, 2, 12)),
        ("train = { seq_len = 0 }\n", "train.seq_len", (1, 21, 1, 22)),
        ('[train]\n"z z" = 0\n', "train.z z", (2, 1, 2, 6)),
        ("[zzz]\na = 1\n[train]\n", "zzz", (1, 2, 1, 5)),
        (
            "[[data.datasets]]\npath = 'x'\n[[data.datasets]]\nweight = 1\n",
            "data.datasets[1]",
            (3, 8, 3, 16),
        ),
        ("[data]\ndatasets = [{}]\n", "data.datasets[0]", (2, 13, 2, 15)),
        ("[data]\ndatasets = {}\n", "data.datasets[0]", (2, 12, 2, 14)),
        (
            "[data]\nphases = [{ dataset_weights = { a = -1 } }]\n",
            "data.phases[0].dataset_weights.a",
            (2, 37, 2, 39),
        ),
    ],
)
def test_where_faults_stand(lint, text, key, region):
    found = lint(text).diagnostics
    assert [(d.key, d.region) for d in found if d.category == "rejected"] == [
        (key, region)
    ]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_do_not_move_a_finding(lint, ending):
    (found,) = lint(TP.replace("\n", ending)).diagnostics
    assert found.region == (4, 6, 4, 7)


def test_a_config_is_freed_as_soon_as_it_is_judged(builtin):
    """A run of lint never searches for garbage: nothing may wait for that."""
    rules = Rules(list(builtin), {})
    texts = [example.config for rule in builtin for example in rule.good[:1]]
    gc.collect()
    gc.disable()
    try:
        before = _jobs()
        for text in texts:
            check("a.toml", text.encode(), rules, Target())
        assert _jobs() == before
    finally:
        gc.enable()


def _jobs() -> int:
    """How many jobs are in memory."""
    return sum(type(each) is Job for each in gc.get_objects())
