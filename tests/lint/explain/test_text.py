"""Pages as people read them."""

from fp8tune.lint.explain import explain
from fp8tune.lint.explain.rule import FixText
from fp8tune.lint.explain.text import text

FIXES = """
Fix for the example
  compile the model (fp8tune lint --unsafe-fixes)
    the first step takes longer
  compile it (fp8tune lint --fix)

How to show it
  expect: slower
  config:
    [train]
    seq_len = 16
  runs: 2

Evidence
"""


def test_fixes_and_experiments():
    fix = FixText("unsafe", "compile the model", "the first step takes longer")
    experiment = {"expect": "slower", "config": "[train]\nseq_len = 16\n", "runs": 2}
    page = explain("fp8-without-compile")._replace(
        fixes=[fix, FixText("safe", "compile it", "")], experiments=[experiment]
    )
    assert FIXES in text(page)


def test_a_config_cannot_act_on_the_terminal(config):
    read = config(
        '[model]\nmodel_type = "\\u001b[31mx\\u009b"\n[train]\nseq_len = 16\n'
    )
    shown = text(explain("model.model_type", read))
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert r"\u001b[31mx\u009b" in shown
