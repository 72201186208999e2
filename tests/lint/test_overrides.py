"""Findings of a config with overrides: where they point, and what is left alone."""

from fp8tune.job import Target
from fp8tune.lint.engine import check

TP = '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 4\n'


def found(rules, text, *words):
    """Rule, line and argument of each finding."""
    report = check("a.toml", text.encode(), rules, Target(), overrides=words)
    return {
        (d.rule, d.region.line, d.labels[0].argument and d.labels[0].argument.text)
        for d in report.diagnostics
    }


def test_an_override_takes_a_finding_away_and_another_moves_it(rules):
    rule = "fp8-with-tensor-parallel"
    assert (rule, 4, None) in found(rules, TP)
    assert rule not in {name for name, *_ in found(rules, TP, "--distributed.tp=1")}
    word = "--distributed.tp=2"
    assert (rule, 4, word) in found(rules, TP, word)
    assert (rule, 1, word) in found(rules, TP.partition("[dist")[0], word)


def test_the_file_is_checked_before_the_overrides(rules):
    text = "[model]\ndim = 96\nn_heads = 5\nn_kv_heads = 5\n"
    rule = "heads-do-not-divide-hidden-size"
    assert found(rules, text, "--model.dim=100") == {(rule, 2, None)}


def test_an_ignore_comment_is_not_unused_because_of_an_override(rules):
    text = TP.replace("4", "4  # fp8tune: ignore[fp8-with-tensor-parallel]")
    assert ("unused-ignore", 4, None) in found(rules, text.replace("4 ", "1 "))
    for word in ("--distributed.tp=1", "--distributed.tp=2"):
        names = {name for name, *_ in found(rules, text, word)}
        assert not names & {"unused-ignore", "fp8-with-tensor-parallel"}


def test_a_fix_never_writes_a_value_of_the_command_line(project, fp8tune):
    folder = project({"a.toml": TP})
    select = ("--select", "fp8-with-tensor-parallel")
    ended = fp8tune("lint", *select, "--unsafe-fixes", "--", "--distributed.tp=2")
    assert (ended.code, (folder / "a.toml").read_text()) == (1, TP)
    assert "change `--distributed.tp=2` yourself" in ended.out
    ended = fp8tune("lint", *select, "--unsafe-fixes", "--", "--train.seq_len=64")
    assert (ended.code, "tp = 1" in (folder / "a.toml").read_text()) == (0, True)


def test_a_baseline_is_not_stale_because_of_an_override(project, fp8tune):
    project({"a.toml": TP})
    keep = ("lint", "--select", "fp8-with-tensor-parallel", "--baseline", "b.json")
    assert fp8tune(*keep, "--update-baseline").code == 0
    ended = fp8tune(*keep, "--", "--distributed.tp=1")
    assert (ended.code, "stale" in ended.err) == (0, False)
