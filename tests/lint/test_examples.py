"""The examples that rules carry are run, and every kind of failure is said."""

import pytest

from fp8tune.lint.examples import (
    Failure,
    run_examples,
)
from fp8tune.lint.packs import read_pack
from fp8tune.lint.ruleset import Rules
from tests.each import each
from tests.lint.conftest import fix
from tests.sample import NO_PIPELINE

RULE = (
    NO_PIPELINE
    + """\
[[at]]
key = "tp"
"""
)
BAD = "[distributed]\npp = «2»\n"
GOOD = "[distributed]\npp = 1\n"


def example(kind, config, also=(), fixed=""):
    lines = [f"[[{kind}]]", f"config = '''{config}'''", f"also = {list(also)!r}"]
    lines += [f"fixed = '''{fixed}'''"] * bool(fixed)
    return "\n".join([*lines, ""])


@pytest.fixture
def failures(tmp_path, builtin):
    """The failures of a pack of one rule with these examples."""

    def run(*examples):
        (tmp_path / "silent").mkdir(exist_ok=True)
        (tmp_path / "silent" / "no-pipeline.toml").write_text(RULE + "".join(examples))
        pack = read_pack(str(tmp_path))
        refusals = [rule for rule in builtin if rule.category == "rejected"]
        return list(run_examples(pack, Rules([*refusals, *pack], {})))

    return run


@pytest.mark.parametrize("examples", [[], [("bad", BAD)], [("good", GOOD)]])
def test_a_rule_needs_both_kinds(failures, examples):
    assert failures(*(example(*each) for each in examples)) == [
        Failure("no-pipeline", "", "needs at least one [[bad]] and one [[good]]")
    ]


@each(
    ("config", "also", "reasons"),
    [
        (GOOD, (), ["fires 0 times instead of once"]),
        ("[distributed]\npp = 2\n", (), ["marks no span with «»"]),
        (
            "[distributed]\n«pp» = 2\n",
            (),
            ["points at 2:6-2:7 instead of 2:1-2:3"],
        ),
        (
            "[distributed]\npp = «2»\n\u2039tp\u203a = 2\n",
            (),
            ["also points at 3:6-3:7 instead of 3:1-3:3"],
        ),
        (
            "\u2039[distributed]\u203a\npp = «2»\n",
            (),
            ["also points at nothing instead of 1:1-1:14"],
        ),
        ("[distributed]\npp = «2»\ndp_shard = 0\n", ("value-out-of-range",), []),
        (
            "[distributed]\npp = «2»\ndp_shard = 0\nzzz = 1\n",
            (),
            ["also fires unknown-key, value-out-of-range"],
        ),
    ],
)
def test_bad(failures, config, also, reasons):
    assert failures(example("bad", config, also), example("good", GOOD)) == [
        Failure("no-pipeline", "bad 1", reason) for reason in reasons
    ]


@pytest.mark.parametrize(
    ("config", "also", "reasons"),
    [
        ("[distributed]\npp = 2\n", (), ["fires"]),
        ("[zzz]\na = 1\n", (), ["is skipped as no table that a known trainer reads"]),
        ("[distributed]\ndp_shard = 0\n", (), ["also fires value-out-of-range"]),
        ("[distributed]\ndp_shard = 0\n", ("value-out-of-range",), []),
    ],
)
def test_good(failures, config, also, reasons):
    said = failures(
        example("bad", BAD), example("good", GOOD), example("good", config, also)
    )
    assert said == [Failure("no-pipeline", "good 2", reason) for reason in reasons]


@pytest.mark.parametrize(
    "config",
    [
        "[distributed]\npp = «2\n",
        "[distributed]\npp = 2»\n",
        "[distributed]\npp = \u20392\n",
    ],
)
def test_a_mark_without_its_partner_is_a_failure_of_the_example(failures, config):
    said = failures(example("bad", config), example("good", GOOD))
    assert {(failure.rule, failure.example) for failure in said} == {
        ("no-pipeline", "bad 1")
    }


REPAIRED = "[distributed]\npp = 1\n"


def becomes(text):
    return f"becomes, and `fixed` does not say so:\n{text}"


@each(
    ("body", "fixed", "reasons"),
    [
        ('set = { pp = "1" }', REPAIRED, []),
        ('set = { pp = "3" }', REPAIRED, ["still fires after its fix"]),
        ('set = { pp = "world_size" }', REPAIRED, ["offers no fix"]),
        (
            "rename = { pp = \"'x'\" }",
            "[distributed]\nx = 2\n",
            ["also fires unknown-key after its fix"],
        ),
        ('set = { pp = "1" }', f"{REPAIRED}# more\n", [becomes(REPAIRED)]),
    ],
)
def test_a_fix_is_shown(failures, body, fixed, reasons):
    said = failures(fix(body), example("bad", BAD, fixed=fixed), example("good", GOOD))
    assert said == [Failure("no-pipeline", "bad 1", reason) for reason in reasons]


def test_every_rule_with_fixes_shows_one(failures):
    said = failures(
        fix('set = { pp = "1" }'), example("bad", BAD), example("good", GOOD)
    )
    assert said == [
        Failure("no-pipeline", "", "shows no fix: give a [[bad]] its `fixed`"),
        Failure("no-pipeline", "bad 1", becomes(REPAIRED)),
    ]


def test_a_fix_that_makes_no_toml(failures):
    text = "[distributed]\npp = «2»\n[train]\n"
    body = "header = { pp = \"'train'\" }"
    said = failures(fix(body), example("bad", text, fixed="x"), example("good", GOOD))
    assert [failure.reason for failure in said] == [
        "becomes no TOML: [train] is declared twice"
    ]
