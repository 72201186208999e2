"""Comments of any size, in files of any kind, are read without harm."""

import pytest

from tests.each import each
from tests.lint.claims.said import CONFIG


@each(
    ("config", "wrong", "faults"),
    [
        (
            "[train]\nbatch_size = 0\n[model]\ndim = 'x'\n"
            "[distributed]\ndp_shard = 2.5\n",
            ["gpus", "value", "value"],
            ["value-out-of-range", "value-not-convertible", "value-truncated"],
        ),
        (
            "train = 5\nmodel = []\n[distributed]\ntp = 0\ndp_shard = 0\n",
            ["value"],
            2 * ["section-not-a-table"] + 2 * ["value-out-of-range"],
        ),
        (
            "[model]\nn_layers = 0\n[checkpoint]\ninterval = 0\n",
            ["batch", "tokens", "value"],
            2 * ["value-out-of-range"],
        ),
        ("", ["batch", "tokens", "size", "value", "value"], []),
    ],
)
def test_claims_are_judged_where_a_broken_config_leaves_the_facts(
    lint, config, wrong, faults
):
    comment = "16 GPUs, 256 seqs/step, 2M tokens/step, 7.1B params, TP=4, no AC, bf16"
    found = lint(f"# {comment}\n# Checkpoint every 5 steps\n{config}").diagnostics
    claims = [f"wrong-{what}-in-comment" for what in wrong]
    assert [d.rule for d in found] == claims + faults


def test_nothing_is_read_where_no_such_rule_is_selected(builtin):
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from fp8tune.job import Target\n"
        "from fp8tune.lint.engine import Rules, check\n"
        "from fp8tune.lint.builtin import read_builtin\n"
        "rules = [r for r in read_builtin() if sys.argv[1] in r.name]\n"
        "text = sys.argv[2].encode()\n"
        "check('a.toml', text, Rules(rules, {}), Target(), only='kempnerforge')\n"
        "print('fp8tune.lint.claims' in sys.modules)\n"
    )

    def read(rules, text):
        command = [sys.executable, "-c", code, rules, text]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout

    config = "[train]\nseq_len = 16\n"
    assert read("comment", f"# 8 GPUs\n{config}") == "True\n"
    assert read("comment", f"# words\n{config}") == "False\n"
    assert read("tensor-parallel", f"# 8 GPUs\n{config}") == "False\n"


@pytest.mark.parametrize(
    "comment",
    [
        "global batch 512\n" * 20_000,
        "global batch 512 " * 20_000,
        "Label:\n\n" * 20_000 + "global batch 512\n" * 200,
        "8 GPUs, no AC, in bf16\n" * 20_000,
        "x\n\n" * 50_000 + "512 seqs/step",
    ],
)
def test_a_mebibyte_of_comments_comes_back(lint, comment):
    text = "".join(f"# {line}\n" for line in comment.split("\n"))[: 1 << 19]
    found = lint(f"{text.rstrip()}\n{CONFIG}").diagnostics
    assert len(found) <= 200


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_strings_over_several_lines_are_no_comments(lint, quotes):
    text = f"[data]\nfile_pattern = {quotes}\n# global batch 512\n{quotes}\n{CONFIG}"
    assert [d.rule for d in lint(text).diagnostics if "comment" in d.rule] == []
